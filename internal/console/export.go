package console

import (
	"bufio"
	"context"
	"net/http"
	"time"

	"github.com/sluicehq/sluice/internal/ordercsv"
)

// An export asks the database for one page of orders after another: mostExports at a time, one of each admin, each for
// exportAtMost. The visitor's browser has exportPause for each part that it is sent.
const (
	mostExports  = 4
	exportAtMost = 15 * time.Minute
	exportPause  = 2 * time.Minute
)

// exportOrders answers with all orders that the address asks for, as a table. One that breaks off must not pass for a
// whole one, so the connection breaks with it.
func (c *Console) exportOrders(w http.ResponseWriter, r *http.Request) {
	v := c.visit(w, r)
	if !v.signedIn() || r.Method == http.MethodHead {
		return
	}
	if v.Query("id") != "" { // which is no filter: all orders would be found
		v.fail(errAddress)
		return
	}
	end := c.exports.take(v.Admin.Name)
	if end == nil {
		v.fail(errBusy)
		return
	}
	defer end()
	ctx, cancel := context.WithTimeout(v.ctx, exportAtMost)
	defer cancel()
	file := &download{ResponseWriter: w}
	out := bufio.NewWriterSize(file, 64<<10)
	err := ordercsv.Write(out, true, c.client.AllAdminOrders(ctx, v.filter()))
	if err == nil {
		err = out.Flush()
	}
	switch {
	case err == nil:
	case file.begun:
		panic(http.ErrAbortHandler)
	default:
		v.fail(err)
	}
}

// download sends an export, and says of what kind it is with the first part.
type download struct {
	http.ResponseWriter
	begun bool
}

func (d *download) Write(p []byte) (int, error) {
	if !d.begun {
		d.begun = true
		d.Header().Set("Content-Type", "text/csv; charset=utf-8")
		d.Header().Set("Content-Disposition", `attachment; filename="orders.csv"`)
	}
	_ = http.NewResponseController(d.ResponseWriter).SetWriteDeadline(time.Now().Add(exportPause))
	return d.ResponseWriter.Write(p)
}
