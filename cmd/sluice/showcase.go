package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

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
	files                                          map[string][]byte
}

func (f *showcaseFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringArrayVar(&f.pictures, "picture", nil,
		"`PATH` of a JPEG, PNG or WebP, or an https address; again for more; none takes all away")
	fl.StringVar(&f.description, "description", "", "`TEXT` on the page, in Markdown")
	fl.StringVar(&f.badge, "badge", "", "a few words beside the state, `TEXT` like \"Limited edition\"")
	fl.StringVar(&f.titleEN, "title-en", "", "`TITLE` for readers of English")
	fl.StringVar(&f.titleZH, "title-zh", "", "`TITLE` for readers of Chinese")
	fl.StringVar(&f.descriptionEN, "description-en", "", "`TEXT` for readers of English")
	fl.StringVar(&f.descriptionZH, "description-zh", "", "`TEXT` for readers of Chinese")
}

// message says what was given. A language that was not given has no text of its own.
func (f *showcaseFlags) message(cmd *cobra.Command, m *api.PatchShowcase) {
	given := func(names ...string) bool { return slices.ContainsFunc(names, cmd.Flags().Changed) }
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
	if len(f.pictures) > 0 && f.pictures[0] == "none" {
		m.Pictures = api.Some(sluice.Pictures(""))
	}
}

// readPictures reads the files, and says what the server would refuse before anything is sent.
func (f *showcaseFlags) readPictures() error {
	f.files = map[string][]byte{}
	for i, name := range f.pictures {
		if i == 0 && name == "none" || strings.HasPrefix(name, "https://") {
			continue
		}
		file, err := os.ReadFile(name)
		if err == nil {
			_, err = picture.Make(file)
		}
		if err != nil {
			return fmt.Errorf("--picture %s: %w", name, err)
		}
		f.files[name] = file
	}
	return nil
}

// addPictures gives them to a sale, in the order in which they were given. It returns the sale also
// with an error.
func (f *showcaseFlags) addPictures(ctx context.Context, c *client.Client, sale api.AdminSale) (api.AdminSale, error) {
	for _, name := range f.pictures {
		if name == "none" {
			continue
		}
		with, err := sale, error(nil)
		if file, ok := f.files[name]; ok {
			with, err = c.AddPicture(ctx, sale.ID, bytes.NewReader(file))
		} else {
			all := sluice.PicturesOf(append(sale.Pictures.Names(), name)...)
			with, err = c.PatchSale(ctx, sale.ID, api.PatchSale{PatchShowcase: api.PatchShowcase{Pictures: api.Some(all)}})
		}
		if err != nil {
			return sale, fmt.Errorf("the picture %s is not: %w", name, err)
		}
		sale = with
	}
	return sale, nil
}
