package console

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
)

// edited is what the form of a sale shows.
type edited struct {
	ID     string // empty: the sale is new
	Title  string
	Values values
	Was    values // what the form was loaded with
	Wrong  string
}

// newSale is the form of a new sale, with the values of an earlier one if the address names it.
func newSale(v *visit) (string, any, error) {
	if !v.May(sluice.Owner) {
		return "", nil, errRole
	}
	one := edited{Values: values{"currency": "CNY"}}
	id := strings.ToLower(rand.Text()[:10]) // of the form, so that to send it twice makes one sale
	if like := v.Query("like"); like != "" {
		s, err := v.c.client.AdminSale(v.ctx, sluice.SaleID(like))
		if err != nil {
			return "", nil, err
		}
		if one.Values, err = valuesOf(&s); err != nil {
			return "", nil, err
		}
		delete(one.Values, "opens_at")
		delete(one.Values, "closes_at")
		delete(one.Values, "pictures") // those are its own
	}
	one.Values["id"] = id
	return "edit.html", one, nil
}

// editSale is the form of a sale.
func editSale(v *visit) (string, any, error) {
	if !v.May(sluice.Operator) {
		return "", nil, errRole
	}
	s, err := v.c.client.AdminSale(v.ctx, sluice.SaleID(v.r.PathValue("id")))
	if err != nil {
		return "", nil, err
	}
	all, err := valuesOf(&s)
	return "edit.html", edited{ID: string(s.ID), Title: s.Title, Values: all, Was: all}, err
}

// createSale makes a sale of the form.
func createSale(v *visit) (id sluice.SaleID, err error) {
	sent, err := message(v.r.PostForm, values{}, true)
	if err != nil {
		return "", err
	}
	create, err := decoded[api.CreateSale](sent)
	if err != nil {
		return "", err
	}
	s, err := v.c.client.CreateSale(v.ctx, create)
	return s.ID, err
}

// changeSaleTo changes what differs from the sale as it is.
func changeSaleTo(v *visit) (id sluice.SaleID, err error) {
	id = sluice.SaleID(v.r.PathValue("id"))
	s, err := v.c.client.AdminSale(v.ctx, id)
	if err != nil {
		return id, err
	}
	before, err := valuesOf(&s)
	if err != nil {
		return id, err
	}
	sent, err := message(v.r.PostForm, before, false)
	if err != nil || len(sent) == 0 {
		return id, err
	}
	patch, err := decoded[api.PatchSale](sent)
	if err != nil {
		return id, err
	}
	_, err = v.c.client.PatchSale(v.ctx, id, patch)
	return id, err
}

// Pictures are read from the database, whose connections orders want: mostPictures at a time, each for so long.
const (
	mostPictures    = 2
	picturePatience = 5 * time.Second
)

// Pictures are those of a sale that were uploaded: a page loads nothing from other servers.
func (v *visit) Pictures(names string) []string {
	return slices.DeleteFunc(strings.Fields(names), func(name string) bool { return !sluice.PictureID(name) })
}

// picture answers with a picture of a sale, also of one that buyers do not see.
func (c *Console) picture(w http.ResponseWriter, r *http.Request) {
	v := c.visit(w, r)
	if !v.signedIn() {
		return
	}
	sale, name := sluice.SaleID(r.PathValue("id")), r.PathValue("picture")
	if sale.Validate() != nil || !sluice.PictureID(name) { // the database need not see it
		v.fail(errNoPage)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), picturePatience)
	defer cancel()
	select {
	case c.pictures <- struct{}{}:
		defer func() { <-c.pictures }()
	case <-ctx.Done():
		http.Error(w, "too many pictures are asked for", http.StatusServiceUnavailable)
		return
	}
	jpeg, err := c.Picture(ctx, sale, name)
	if err != nil {
		v.fail(err)
		return
	}
	w.Header().Set("Content-Type", "image/jpeg")
	w.Header().Set("Cache-Control", "private, max-age=86400") // another picture has another id
	_, _ = w.Write(jpeg)
}

// addPicture gives a sale the picture of the form.
func addPicture(v *visit) (id sluice.SaleID, err error) {
	id = sluice.SaleID(v.r.PathValue("id"))
	file, _, err := v.r.FormFile("picture")
	if err != nil {
		return id, errForm{text{"choose a picture first", "请先选择图片"}}
	}
	defer file.Close()
	_, err = v.c.client.AddPicture(v.ctx, id, file)
	return id, err
}

// submit takes a form of a sale, and goes to the sale; if it fails, the form says why.
func (c *Console) submit(did string, uploader sluice.Role, take func(*visit) (sluice.SaleID, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v := c.visit(w, r)
		if !v.signedIn() {
			return
		}
		end, err := v.ours(uploader)
		defer end()
		if err != nil {
			v.fail(err)
			return
		}
		id, err := take(v)
		if err == nil {
			v.flash(did)
			http.Redirect(w, r, v.Path("sales", url.PathEscape(string(id))), http.StatusSeeOther)
			return
		}
		one := edited{ID: r.PathValue("id"), Title: r.PathValue("id"), Values: values{}, Was: values{}, Wrong: err.Error()}
		for name := range r.PostForm {
			if was, old := strings.CutPrefix(name, "was:"); old {
				one.Was[was] = r.PostForm.Get(name)
			} else {
				one.Values[name] = r.PostForm.Get(name)
			}
		}
		if r.MultipartForm != nil { // it was a picture: the form is that of the sale
			if _, body, failed := editSale(v); failed == nil {
				one = body.(edited)
				one.Wrong = err.Error()
			}
		}
		status := statusOf(err)
		if form, ok := errors.AsType[errForm](err); ok {
			one.Wrong = v.Say(form.text)
		}
		if other, ok := errors.AsType[errOverwrites](err); ok {
			one.Wrong, one.Was[other.input], status = v.Say(other.text), other.now, http.StatusConflict
		}
		if status == http.StatusBadGateway { // it was not the API that refused it
			status = http.StatusUnprocessableEntity
		}
		v.render(status, "edit.html", one)
	}
}

// said is what a form of a sale has done.
var said = map[string]text{
	"created": {"The sale is created.", "活动已创建。"},
	"changed": {"The sale is changed.", "活动已修改。"},
	"picture": {"The picture is added.", "图片已添加。"},
}
