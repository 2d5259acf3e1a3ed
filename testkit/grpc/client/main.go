// Command client runs one of gRPC's interoperability cases. It says what went wrong, and exits with another code than 0 then.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
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
	hold := flag.Duration("hold", time.Second, "time for which held_stream keeps its stream")
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
	case *name == "held_stream":
		holdStream(testgrpc.NewTestServiceClient(connection), *hold)
	case *name == "unimplemented_method":
		interop.DoUnimplementedMethod(connection)
	case *name == "unimplemented_service":
		interop.DoUnimplementedService(testgrpc.NewUnimplementedServiceClient(connection))
	default:
		log.Fatalf("there is no case %q", *name)
	}
}

// holdStream sends a message ten times a second on one stream, and reads the answer to each before the next. It prints their number.
func holdStream(client testgrpc.TestServiceClient, hold time.Duration) {
	limited, cancel := context.WithTimeout(context.Background(), hold+30*time.Second)
	defer cancel()
	stream, err := client.FullDuplexCall(limited)
	if err != nil {
		log.Fatalf("no stream: %v", err)
	}
	sent := 0
	for begun := time.Now(); time.Since(begun) < hold; time.Sleep(100 * time.Millisecond) {
		sent++
		size := int32(1000 * (sent%50 + 1))
		wanted := []*testgrpc.ResponseParameters{{Size: size}}
		if err := stream.Send(&testgrpc.StreamingOutputCallRequest{ResponseParameters: wanted}); err != nil {
			log.Fatalf("message %d is not sent: %v", sent, err)
		}
		answer, err := stream.Recv()
		if err != nil {
			log.Fatalf("message %d is not answered: %v", sent, err)
		}
		if got := len(answer.GetPayload().GetBody()); got != int(size) {
			log.Fatalf("message %d has %d bytes, not %d", sent, got, size)
		}
	}
	if err := stream.CloseSend(); err != nil {
		log.Fatalf("the stream does not end: %v", err)
	}
	if _, err := stream.Recv(); err != io.EOF {
		log.Fatalf("after the last message: %v", err)
	}
	fmt.Println("held", sent, "messages")
}
