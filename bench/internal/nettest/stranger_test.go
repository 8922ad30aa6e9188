package nettest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"time"
)

// strangerMain is something else than hopbench that answers at an address. It says "ready" when it listens.
func strangerMain(what string, args []string) int {
	l, err := net.Listen("tcp", args[0])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("ready")
	if what == "http" {
		fmt.Fprintln(os.Stderr, http.Serve(l, http.NotFoundHandler()))
		return 1
	}
	for {
		c, err := l.Accept()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		go func() {
			defer c.Close()
			switch what {
			case "closes":
			case "huge": // a TLS record of 65,535 bytes: more than any may have
				c.Write([]byte{22, 3, 3, 0xff, 0xff})
				io.Copy(io.Discard, c)
			case "huge-greeting":
				greet(c, "HOPBENCH\x00\x01\xff")
			case "version":
				greet(c, "HOPBENCH\x00\x07\x02v9")
			case "nonce":
				spoil(c, args[1])
			}
		}()
	}
}

// greet says something in place of the server's greeting.
func greet(raw net.Conn, what string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return
	}
	c := tls.Server(raw, &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, NextProtos: []string{"hopbench-control"},
	})
	if c.Handshake() == nil {
		io.WriteString(c, what)
		io.Copy(io.Discard, c)
	}
}

// spoil passes a data connection on, with one bit of its nonce changed.
func spoil(c net.Conn, onward string) {
	d, err := net.Dial("tcp", onward)
	if err != nil {
		return
	}
	defer d.Close()
	head := make([]byte, 8+32)
	if _, err := io.ReadFull(c, head); err != nil {
		return
	}
	head[20] ^= 1
	if _, err := d.Write(head); err != nil {
		return
	}
	go func() {
		io.Copy(d, c)
	}()
	io.Copy(c, d)
}
