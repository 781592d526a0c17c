// What a pod needs in order to say whether its node works: a server, a client, a resolver.
//
//	probe serve ADDRESS             answers with its host name; /health says 200, or 503 after POST /health?status=503
//	probe get [-within D] URL       prints what it is answered, tried again for that long; -method POST asks otherwise
//	probe resolve [-within D] NAME  prints the addresses of a name, tried again for that long
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

func main() {
	log.SetFlags(0)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		log.Fatal("error: ", err)
	}
}

func run(ctx context.Context, arguments []string) error {
	if len(arguments) < 2 {
		return errors.New("usage: probe serve|get|resolve ARGUMENT")
	}
	flags := flag.NewFlagSet(arguments[0], flag.ExitOnError)
	within := flags.Duration("within", 0, "how long to try again")
	method := flags.String("method", http.MethodGet, "of a request")
	if err := flags.Parse(arguments[1:]); err != nil {
		return err
	}
	switch argument := flags.Arg(0); arguments[0] {
	case "serve":
		return serve(ctx, argument)
	case "get":
		return eventually(ctx, *within, func(ctx context.Context) (string, error) { return get(ctx, *method, argument) })
	case "resolve":
		return eventually(ctx, *within, func(ctx context.Context) (string, error) {
			addresses, err := net.DefaultResolver.LookupHost(ctx, argument)
			return strings.Join(addresses, "\n"), err
		})
	}
	return fmt.Errorf("unknown command %q", arguments[0])
}

// Serves until it is asked to end, then finishes what it is at.
func serve(ctx context.Context, address string) error {
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	var health atomic.Int64
	health.Store(http.StatusOK)
	http.HandleFunc("/", func(answer http.ResponseWriter, _ *http.Request) { fmt.Fprintln(answer, name) })
	http.HandleFunc("GET /health", func(answer http.ResponseWriter, _ *http.Request) {
		answer.WriteHeader(int(health.Load()))
	})
	http.HandleFunc("POST /health", func(answer http.ResponseWriter, request *http.Request) {
		status, err := strconv.Atoi(request.FormValue("status"))
		if err != nil || status < 200 || status > 599 {
			http.Error(answer, "status must be a status of HTTP", http.StatusBadRequest)
			return
		}
		health.Store(int64(status))
		log.Printf("health is %d", status)
	})
	server := http.Server{Addr: address}
	finished := make(chan error)
	go func() {
		<-ctx.Done()
		log.Print("ending")
		finished <- server.Shutdown(context.Background())
	}()
	log.Printf("%s serves at %s", name, address)
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-finished
}

func get(ctx context.Context, method, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return "", err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", answer.Status, body)
	}
	return strings.TrimSpace(string(body)), err
}

// One attempt: what is sent before there is a rule for a Service is lost.
const attempt = time.Second

// Prints what observe finds, or fails with what it said at last.
func eventually(ctx context.Context, within time.Duration, observe func(context.Context) (string, error)) error {
	for deadline := time.Now().Add(within); ; {
		limited, cancel := context.WithTimeout(ctx, attempt)
		found, err := observe(limited)
		cancel()
		if err == nil {
			fmt.Println(found)
			return nil
		}
		if ctx.Err() != nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
}
