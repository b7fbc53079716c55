package sqliteledger

import (
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"io"
)

// The bodies of claims and of loaded records are nearly all of the file, and two
// thirds of them are digits of ids. So they are deflated (RFC 1951) where that pays: a
// BLOB is such a body, a TEXT is one as it is.

// packFrom is the shortest body that is tried, in bytes: that of a claim alone gains
// little.
const packFrom = 200

// packer has the buffers. One goroutine uses it.
type packer struct {
	out bytes.Buffer // what came out of the last call
	w   *flate.Writer
	r   io.ReadCloser
}

// pack returns the body of a row as the file has it, until the next call.
func (p *packer) pack(r *row) any {
	if len(r.body) < packFrom || r.kind != kindClaims && r.kind != kindLoaded {
		return r.body
	}
	p.out.Reset()
	if p.w == nil {
		p.w, _ = flate.NewWriter(nil, flate.BestSpeed) // the level is one of those there are
	}
	p.w.Reset(&p.out)
	_, err := io.WriteString(p.w, r.body)
	if err = errors.Join(err, p.w.Close()); err != nil || p.out.Len() >= len(r.body) {
		return r.body
	}
	return p.out.Bytes()
}

// unpack sets the body of a row to what the file has. A body that cannot be inflated stays
// as it is, and is damage.
func (p *packer) unpack(body any, r *row) {
	switch body := body.(type) {
	case string:
		r.body = body
	case []byte:
		if p.r == nil {
			p.r = flate.NewReader(nil)
		}
		_ = p.r.(flate.Resetter).Reset(bytes.NewReader(body), nil) // never fails
		p.out.Reset()
		if _, err := p.out.ReadFrom(p.r); err != nil {
			r.body, r.damage = string(body), fmt.Errorf("its body cannot be inflated: %w", err)
			return
		}
		r.body = p.out.String()
	default:
		r.body, r.damage = fmt.Sprint(body), fmt.Errorf("its body is a %T", body)
	}
}
