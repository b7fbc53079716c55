// Package typescript is the npm package @sluice/client, for the server's own pages:
// they use the same files.
package typescript

import "embed"

// Files are the modules that browsers load.
//
//go:embed attempt.js claim.js clock.js http.js pow.js sluice.js stream.js
var Files embed.FS
