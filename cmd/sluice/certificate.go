package main

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/sluicehq/sluice/internal/config"
)

// certificate is a certificate and its key in files, which may be renewed
// while the server runs: they are looked at now and then, and a new pair is
// used from the next connection on. A pair that cannot be read leaves the old
// one in use, with a warning.
type certificate struct {
	cert, key string
	every     time.Duration // between looks
	log       *slog.Logger

	mu     sync.Mutex
	pair   *tls.Certificate
	state  [2]fileState // of the files, when last read
	looked time.Time
}

// fileState distinguishes one version of a file from another.
type fileState struct {
	size int64
	time time.Time
}

// lookAtCertificate is how often the files are looked at, at most.
const lookAtCertificate = 10 * time.Second

// loadTLS returns nil if the server is to speak plain HTTP.
func loadTLS(c *config.Config, log *slog.Logger) (*tls.Config, error) {
	if c.TLSCert == "" {
		return nil, nil
	}
	if err := c.CheckFiles(); err != nil {
		return nil, err
	}
	files := &certificate{cert: c.TLSCert, key: c.TLSKey, every: lookAtCertificate, log: log}
	if err := files.load(); err != nil {
		return nil, err
	}
	return &tls.Config{GetCertificate: files.get, MinVersion: tls.VersionTLS12}, nil
}

// get is tls.Config.GetCertificate.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.looked) >= c.every {
		c.looked = now
		if state := c.look(); state != c.state {
			if err := c.load(); err != nil {
				c.log.Warn("the certificate has changed and cannot be used; the old one stays", "error", err)
			} else {
				c.log.Info("the certificate has been renewed", "tls_cert", c.cert)
			}
			c.state = state // a bad pair is complained of once
		}
	}
	return c.pair, nil
}

func (c *certificate) look() (state [2]fileState) {
	for i, path := range []string{c.cert, c.key} {
		if info, err := os.Stat(path); err == nil {
			state[i] = fileState{info.Size(), info.ModTime()}
		}
	}
	return state
}

func (c *certificate) load() error {
	state := c.look()
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return fmt.Errorf("tls_cert %q and tls_key %q: %w", c.cert, c.key, err)
	}
	c.pair, c.state, c.looked = &pair, state, time.Now()
	return nil
}
