package web

import (
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sluicehq/sluice/internal/content"
)

// listPages keeps the list as last rendered.
type listPages struct {
	last   atomic.Pointer[listPage]
	making sync.Mutex
}

// listPage is the list, and what it was made of.
type listPage struct {
	snapshot any // Source.Snapshot
	sales    []facts
	answer   *content.Answer
}

// listPage returns the list as it is now.
func (p *Pages) listPage() *content.Answer {
	list := p.lists.last.Load()
	if list == nil || list.snapshot != p.source.Snapshot() {
		list = p.makeList()
	}
	return list.answer
}

// makeList asks for the sales, once per snapshot: one request does it, those
// that come meanwhile wait for it. The same sales give the same page, with
// the ETag that it had.
func (p *Pages) makeList() *listPage {
	p.lists.making.Lock()
	defer p.lists.making.Unlock()
	old := p.lists.last.Load()
	list := &listPage{snapshot: p.source.Snapshot()} // before the sales: they may be newer, but not older
	if old != nil && old.snapshot == list.snapshot {
		return old
	}
	sales := p.source.Sales()
	list.sales = make([]facts, len(sales))
	for i := range sales {
		list.sales[i] = factsOf(&sales[i])
	}
	if old != nil && slices.Equal(list.sales, old.sales) {
		list.answer = old.answer
	} else {
		list.answer = p.render("list.html", page{Kind: "list", Days: daysOf(list.sales)}, http.StatusOK, keepList)
	}
	p.lists.last.Store(list)
	return list
}

// mostSalePages bounds the pages of sales that are kept, of about 15 kB each.
// Only sales that exist have one, but a shop may have had any number of them.
const mostSalePages = 4096

// salePages keeps the pages of sales as last rendered.
type salePages struct {
	kept   sync.Map // sluice.SaleID to *salePage
	making sync.Mutex
	count  int // of kept; guarded by making
	most   int // mostSalePages
}

// salePage is the page of a sale, and what it was made of.
type salePage struct {
	facts  facts
	answer *content.Answer
}

// salePage returns the page that says f. It is rendered once, and again when the
// merchant has changed the sale.
func (p *Pages) salePage(f facts) *content.Answer {
	if kept := p.sales.find(&f); kept != nil {
		return kept.answer
	}
	return p.makeSalePage(f)
}

func (s *salePages) find(f *facts) *salePage {
	if kept, ok := s.kept.Load(f.ID); ok && kept.(*salePage).facts == *f {
		return kept.(*salePage)
	}
	return nil
}

// makeSalePage renders one page at a time: a crowd that comes at once has it
// rendered once.
func (p *Pages) makeSalePage(f facts) *content.Answer {
	s := &p.sales
	s.making.Lock()
	defer s.making.Unlock()
	if made := s.find(&f); made != nil {
		return made.answer
	}
	made := &salePage{facts: f, answer: p.render("sale.html", page{Kind: "sale", Sale: &f}, http.StatusOK, keepSale)}
	if _, ok := s.kept.Load(f.ID); !ok {
		if s.count >= s.most { // start over: pages still in use are soon back
			s.kept.Clear()
			s.count = 0
		}
		s.count++
	}
	s.kept.Store(f.ID, made)
	return made.answer
}
