// Command server answers gRPC's interoperability cases on a loopback port, which it prints. It ends when its standard input does.
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/interop"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
)

func main() {
	certificate := flag.String("certificate", "", "PEM `file` of the certificate; without one there is no TLS")
	key := flag.String("key", "", "PEM `file` of the certificate's key")
	flag.Parse()

	var options []grpc.ServerOption
	if *certificate != "" {
		secure, err := credentials.NewServerTLSFromFile(*certificate, *key)
		if err != nil {
			log.Fatalf("the certificate cannot be used: %v", err)
		}
		options = append(options, grpc.Creds(secure))
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatalf("no port to listen on: %v", err)
	}
	server := grpc.NewServer(options...)
	testgrpc.RegisterTestServiceServer(server, interop.NewTestServer())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		server.Stop()
	}()
	fmt.Println(listener.Addr())
	if err := server.Serve(listener); err != nil {
		log.Fatalf("serving ended: %v", err)
	}
}
