// Command client runs one of gRPC's interoperability cases. It says what went wrong, and exits with another code than 0 then.
package main

import (
	"flag"
	"log"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
)

// The cases that take the service's client alone.
var cases = map[string]func(testgrpc.TestServiceClient, ...grpc.CallOption){
	"empty_unary":                 interop.DoEmptyUnaryCall,
	"large_unary":                 interop.DoLargeUnaryCall,
	"client_streaming":            interop.DoClientStreaming,
	"server_streaming":            interop.DoServerStreaming,
	"ping_pong":                   interop.DoPingPong,
	"empty_stream":                interop.DoEmptyStream,
	"timeout_on_sleeping_server":  interop.DoTimeoutOnSleepingServer,
	"cancel_after_begin":          interop.DoCancelAfterBegin,
	"cancel_after_first_response": interop.DoCancelAfterFirstResponse,
	"status_code_and_message":     interop.DoStatusCodeAndMessage,
	"special_status_message":      interop.DoSpecialStatusMessage,
	"custom_metadata":             interop.DoCustomMetadata,
}

func main() {
	address := flag.String("address", "", "`host:port` to call")
	authority := flag.String("authority", "", "host `name` to call it by")
	ca := flag.String("ca", "", "PEM `file` of the authority to trust; without one there is no TLS")
	name := flag.String("case", "", "`name` of the case")
	limit := flag.Duration("limit", time.Minute, "longest time that the case may take")
	flag.Parse()

	time.AfterFunc(*limit, func() { log.Fatalf("%s is not over after %v", *name, *limit) })
	transport := insecure.NewCredentials()
	if *ca != "" {
		secure, err := credentials.NewClientTLSFromFile(*ca, *authority)
		if err != nil {
			log.Fatalf("the authority's certificate cannot be used: %v", err)
		}
		transport = secure
	}
	options := []grpc.DialOption{grpc.WithTransportCredentials(transport), grpc.WithAuthority(*authority)}
	connection, err := grpc.Dial(*address, options...)
	if err != nil {
		log.Fatalf("no connection: %v", err)
	}
	defer connection.Close()
	switch run, known := cases[*name]; {
	case known:
		run(testgrpc.NewTestServiceClient(connection))
	case *name == "unimplemented_method":
		interop.DoUnimplementedMethod(connection)
	case *name == "unimplemented_service":
		interop.DoUnimplementedService(testgrpc.NewUnimplementedServiceClient(connection))
	default:
		log.Fatalf("there is no case %q", *name)
	}
}
