package mysqlstore_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/store/mysqlstore"
)

// With TLS if the server has it, unless the URL says no; and with proof of who
// the server is if the URL says so.
func TestTLS(t *testing.T) {
	cert, key := selfSigned(t)
	server := servertest.StartMySQL(t, "--ssl-cert="+cert, "--ssl-key="+key)
	for setting, encrypted := range map[string]bool{
		"": true, "?tls=preferred": true, "?tls=skip-verify": true,
		"?tls=false": false,
	} {
		s := open(t, server.URL()+setting)
		var name, cipher string
		if err := mysqlstore.RawDB(s).QueryRow("SHOW STATUS LIKE 'Ssl_cipher'").Scan(&name, &cipher); err != nil ||
			(cipher != "") != encrypted {
			t.Errorf("%q: cipher %q, %v, want encrypted: %v", setting, cipher, err, encrypted)
		}
	}
	_, err := mysqlstore.Open(t.Context(), server.URL()+"?tls=true", mysqlstore.Options{})
	if err == nil || !strings.Contains(err.Error(), "x509") {
		t.Errorf("tls=true, to a server with an untrusted certificate: error %v", err)
	}
}

// selfSigned writes a certificate and its key into files.
func selfSigned(t *testing.T) (cert, key string) {
	t.Helper()
	private := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour),
	}
	der := must.Get(x509.CreateCertificate(rand.Reader, &template, &template, &private.PublicKey, private))(t)
	secret := must.Get(x509.MarshalPKCS8PrivateKey(private))(t)
	write := func(name, kind string, bytes []byte) string {
		path := filepath.Join(t.TempDir(), name)
		must.Succeed(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}), 0o600))
		return path
	}
	return write("cert.pem", "CERTIFICATE", der), write("key.pem", "PRIVATE KEY", secret)
}
