package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/internal/picture"
)

// showcaseFlags are how a sale is shown, as it was typed.
type showcaseFlags struct {
	description, badge                             string
	titleEN, titleZH, descriptionEN, descriptionZH string
	pictures                                       []string // paths, https addresses, or none
	files                                          map[string]pictureFile
	flags                                          *pflag.FlagSet
}

// pictureFile is a picture on this machine, and the id that a server of this version gives it.
type pictureFile struct {
	content []byte
	id      string
}

func (f *showcaseFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	f.flags = fl
	fl.StringArrayVar(&f.pictures, "picture", nil,
		"`PATH` of a JPEG, PNG or WebP, or an https address; again for more; none takes all away")
	fl.StringVar(&f.description, "description", "", "`TEXT` on the page, in Markdown")
	fl.StringVar(&f.badge, "badge", "", "a few words beside the state, `TEXT` like \"Limited edition\"")
	fl.StringVar(&f.titleEN, "title-en", "", "`TITLE` for readers of English")
	fl.StringVar(&f.titleZH, "title-zh", "", "`TITLE` for readers of Chinese")
	fl.StringVar(&f.descriptionEN, "description-en", "", "`TEXT` for readers of English")
	fl.StringVar(&f.descriptionZH, "description-zh", "", "`TEXT` for readers of Chinese")
}

// message says what was given, but for pictures.
func (f *showcaseFlags) message(m *api.PatchShowcase) {
	given := func(names ...string) bool { return slices.ContainsFunc(names, f.flags.Changed) }
	if given("description") {
		m.Description = api.Some(f.description)
	}
	if given("badge") {
		m.Badge = api.Some(f.badge)
	}
	if given("title-en", "title-zh") {
		m.Titles = api.Some(sluice.Texts{EN: f.titleEN, ZH: f.titleZH})
	}
	if given("description-en", "description-zh") {
		m.Descriptions = api.Some(sluice.Texts{EN: f.descriptionEN, ZH: f.descriptionZH})
	}
}

// keep completes texts that were given in one language with those that the sale has in the other.
func (f *showcaseFlags) keep(m *api.PatchShowcase, sale *api.AdminSale) {
	for _, texts := range []struct {
		flag string
		to   *api.Opt[sluice.Texts]
		has  sluice.Texts
	}{{"title", &m.Titles, sale.Titles}, {"description", &m.Descriptions, sale.Descriptions}} {
		if !texts.to.Set {
			continue
		}
		if !f.flags.Changed(texts.flag + "-en") {
			texts.to.Value.EN = texts.has.EN
		}
		if !f.flags.Changed(texts.flag + "-zh") {
			texts.to.Value.ZH = texts.has.ZH
		}
	}
}

// readPictures reads the files, and says what the server would refuse before anything is sent.
func (f *showcaseFlags) readPictures() error {
	f.files = map[string]pictureFile{}
	added := f.pictures
	if len(added) > 0 && added[0] == "none" {
		added = added[1:]
	}
	if n := len(added); n > sluice.MaxPictures {
		return fmt.Errorf("--picture is given for %d pictures: a sale has at most %d", n, sluice.MaxPictures)
	}
	for _, name := range added {
		if strings.HasPrefix(name, "https://") {
			continue
		}
		if scheme, _, is := strings.Cut(name, ":"); name == "" || name == "none" || is && len(scheme) > 1 {
			return fmt.Errorf("--picture %q: want the path of a JPEG, PNG or WebP, or an https address; none comes first", name)
		}
		file, err := os.ReadFile(name)
		var made sluice.Picture
		if err == nil {
			made, err = picture.Make(file)
		}
		if err != nil {
			return fmt.Errorf("--picture %s: %w", name, err)
		}
		f.files[name] = pictureFile{file, made.ID}
	}
	return nil
}

// addPictures gives them to a sale, in the order in which they were given. Pictures that they replace
// go last, so that the sale has pictures throughout, unless there is no room for both. It returns the
// sale also with an error.
func (f *showcaseFlags) addPictures(ctx context.Context, c *client.Client, sale api.AdminSale) (api.AdminSale, error) {
	replaces := len(f.pictures) > 0 && f.pictures[0] == "none"
	names, added := sale.Pictures.Names(), f.pictures
	show := func(names []string) (err error) {
		shown := api.PatchShowcase{Pictures: api.Some(sluice.PicturesOf(names...))}
		with, err := c.PatchSale(ctx, sale.ID, api.PatchSale{PatchShowcase: shown})
		if err != nil {
			return fmt.Errorf("the pictures could not be changed: %w", err)
		}
		sale = with
		return nil
	}
	if replaces {
		if added = added[1:]; len(names)+len(added) > sluice.MaxPictures {
			if err := show(nil); err != nil {
				return sale, err
			}
		}
		names = nil
	}
	// The server may refuse an address: before anything else is changed.
	now := sale.Pictures.Names()
	addresses := slices.DeleteFunc(slices.Clone(added), func(name string) bool {
		_, file := f.files[name]
		return file || slices.Contains(now, name)
	})
	if replaces {
		now = now[:min(len(now), sluice.MaxPictures-len(addresses))]
	}
	if len(addresses) > 0 {
		if err := show(append(now, addresses...)); err != nil {
			return sale, err
		}
	}
	changes := replaces
	for _, name := range added {
		if file, ok := f.files[name]; ok {
			with, err := c.AddPicture(ctx, sale.ID, bytes.NewReader(file.content))
			if err != nil {
				return sale, fmt.Errorf("the picture %s could not be added: %w", name, err)
			}
			name = file.id // the sale had it
			for _, id := range with.Pictures.Names() {
				if !slices.Contains(sale.Pictures.Names(), id) {
					name = id
				}
			}
			sale = with
		} else {
			changes = true
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if changes {
		err := show(names)
		return sale, err
	}
	return sale, nil
}
