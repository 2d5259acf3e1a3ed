// A handshake by Go's crypto/tls, which shares no code with Shoal's: it prints the version, the
// group of the key exchange, and the status of one request.
package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"net/http"
	"os"
)

func main() {
	address := flag.String("address", "", "address of the listener")
	authority := flag.String("ca", "", "file of the authority to trust")
	name := flag.String("name", "", "server name")
	groups := flag.String("groups", "default", "default, x25519, p384 or hybrid")
	older := flag.Bool("tls12", false, "speak TLS 1.2 at most")
	flag.Parse()
	if err := run(*address, *authority, *name, *groups, *older); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(address, authority, name, groups string, older bool) error {
	pem, err := os.ReadFile(authority)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	config := &tls.Config{RootCAs: roots, ServerName: name, NextProtos: []string{"http/1.1"}}
	switch groups {
	case "x25519":
		config.CurvePreferences = []tls.CurveID{tls.X25519}
	case "p384":
		config.CurvePreferences = []tls.CurveID{tls.CurveP384}
	case "hybrid":
		config.CurvePreferences = []tls.CurveID{tls.X25519MLKEM768}
	}
	if older {
		config.MaxVersion = tls.VersionTLS12
	}
	connection, err := tls.Dial("tcp", address, config)
	if err != nil {
		return err
	}
	defer connection.Close()
	request, err := http.NewRequest("GET", "https://"+name+"/a", nil)
	if err != nil {
		return err
	}
	if err := request.Write(connection); err != nil {
		return err
	}
	response, err := http.ReadResponse(bufio.NewReader(connection), request)
	if err != nil {
		return err
	}
	state := connection.ConnectionState()
	fmt.Printf("%s %s %d\n", tls.VersionName(state.Version), state.CurveID, response.StatusCode)
	return nil
}
