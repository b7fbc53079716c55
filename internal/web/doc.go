// Package web holds the buyer's pages: a list of the sales, a page for each
// sale, and one for an order. They are embedded, need no build step, and ask no
// other host for anything.
//
// A page is the same bytes for everybody: both languages are in it, and who
// the visitor is, the state of the sale and the button are the script's, which
// asks the API. So browsers and CDNs may keep it. Scripts and styles have the
// hash of their content in their address, and are kept for ever.
//
// The texts that stand in the templates are those that never change; what
// depends on the moment is in static/texts.js.
package web
