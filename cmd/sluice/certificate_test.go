package main

import (
	"bytes"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/internal/config"
	"github.com/sluicehq/sluice/internal/must"
)

// A certificate that is renewed is used without a restart; a broken one is not.
func TestCertificateIsRenewed(t *testing.T) {
	cert, key := selfSigned(t)
	later := time.Now()
	replace := func(path, with string) {
		t.Helper()
		text, err := os.ReadFile(with)
		if err == nil {
			err = os.WriteFile(path, text, 0o600)
		}
		later = later.Add(time.Minute)
		if err == nil {
			err = os.Chtimes(path, later, later) // another time, whatever the file system's clock
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var said bytes.Buffer
	log := slog.New(slog.NewTextHandler(&said, nil))
	secure := must.Get(loadTLS(&config.Config{TLSCert: cert, TLSKey: key}, log))(t)
	first := must.Get(secure.GetCertificate(nil))(t)

	files := &certificate{cert: cert, key: key, log: log} // looks every time
	must.Succeed(t, files.load())
	served := func() string {
		t.Helper()
		pair := must.Get(files.get(nil))(t)
		return string(pair.Certificate[0])
	}
	if served() != string(first.Certificate[0]) {
		t.Error("not the certificate of the file")
	}
	nextCert, nextKey := selfSigned(t)
	replace(cert, nextCert) // without its key, yet
	if served() != string(first.Certificate[0]) || !strings.Contains(said.String(), "the old one stays") {
		t.Errorf("half of a new pair: %s", said.String())
	}
	said.Reset()
	if served(); said.Len() > 0 {
		t.Errorf("complains again: %s", said.String())
	}
	replace(key, nextKey)
	if served() == string(first.Certificate[0]) || !strings.Contains(said.String(), "renewed") {
		t.Errorf("the new pair is not used: %s", said.String())
	}
}
