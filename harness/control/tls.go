package control

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// alpn tells a web server, which knows no such protocol, that it is not meant.
	alpn        = "hopbench-control"
	exportLabel = "EXPORTER-hopbench-control"
	exportLen   = 32
	// unacknowledged is how long bytes may stay unacknowledged before the kernel breaks the connection.
	unacknowledged = 10 * time.Second
)

// ephemeral makes a certificate for the life of this process. It proves nothing: the token does.
func ephemeral() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make the certificate's key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make the certificate: %w", err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "hopbench"}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		NotBefore:   now.Add(-24 * time.Hour), NotAfter: now.Add(365 * 24 * time.Hour), // nobody looks: clocks of two hosts may differ
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make the certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

func serverTLS(c tls.Certificate) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{c}, NextProtos: []string{alpn},
		SessionTicketsDisabled: true, // a ticket would be one more message, and nobody resumes
	}
}

func clientTLS() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{alpn},
		// The certificate is made at the server's start and known to nobody. Both sides are authenticated by the token, over keying
		// material of this very session: whoever stands in between has another session on each side.
		InsecureSkipVerify: true,
	}
}

// export is keying material of this TLS session, the same on both sides and on no other connection.
func export(c *tls.Conn) ([]byte, error) {
	state := c.ConnectionState()
	if state.NegotiatedProtocol != alpn {
		return nil, fmt.Errorf("%w: it speaks TLS, but not %s", errStranger, alpn)
	}
	return state.ExportKeyingMaterial(exportLabel, nil, exportLen)
}

// silence makes a connection send nothing by itself, and break when what it sent stays unacknowledged.
func silence(c net.Conn) {
	t, ok := c.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := t.SyscallConn()
	if err != nil {
		return
	}
	raw.Control(func(fd uintptr) {
		unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_KEEPALIVE, 0)
		unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
		unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(unacknowledged/time.Millisecond))
	})
}
