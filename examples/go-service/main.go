// Command flowd takes reports of connections and gives messages, in two formats:
//
//	POST /collect?format=binary    messages as protocol buffers, each behind its length
//	POST /collect?format=json      an object a line
//
// It prints `ready ADDRESS pprof ADDRESS` once it listens, serves Go's profiles on the second address, and ends at SIGTERM
// with code 0 when the requests at hand are answered.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"flowd/flow"
)

// A report may have this many bytes.
const mostBytes = 16 << 20

var filters = []flow.Filter{flow.States(1<<1 | 1<<2 | 1<<3 | 1<<4), flow.NotLoopback{}}

// Outputs and buffers of requests that have ended.
type reuse struct{ binary, json, bodies sync.Pool }

func (u *reuse) pool(format string) *sync.Pool {
	if format == "json" {
		return &u.json
	}
	return &u.binary
}

func (u *reuse) output(format string) (flow.Output, bool) {
	if out, ok := u.pool(format).Get().(flow.Output); ok {
		out.Reset()
		return out, true
	}
	return flow.New(format)
}

func (u *reuse) body(from io.Reader, length int64) ([]byte, error) {
	body, _ := u.bodies.Get().([]byte)
	if int64(cap(body)) < length {
		body = make([]byte, length)
	}
	body = body[:length]
	_, err := io.ReadFull(from, body)
	return body, err
}

func (u *reuse) collect(answer http.ResponseWriter, request *http.Request) {
	format := request.URL.Query().Get("format")
	if format != "binary" && format != "json" {
		http.Error(answer, "format must be binary or json", http.StatusBadRequest)
		return
	}
	if request.ContentLength < 0 || request.ContentLength > mostBytes {
		http.Error(answer, "a report needs a length, and one of at most 16 MiB", http.StatusRequestEntityTooLarge)
		return
	}
	report, err := u.body(request.Body, request.ContentLength)
	if err != nil {
		http.Error(answer, err.Error(), http.StatusBadRequest)
		return
	}
	defer u.bodies.Put(report)
	out, _ := u.output(format)
	defer u.pool(format).Put(out)
	read, written, err := flow.Collect(report, filters, out)
	if err != nil {
		http.Error(answer, err.Error(), http.StatusBadRequest)
		return
	}
	answer.Header().Set("Records-Read", strconv.Itoa(read))
	answer.Header().Set("Records-Written", strconv.Itoa(written))
	answer.Header().Set("Content-Length", strconv.Itoa(len(out.Bytes())))
	answer.Write(out.Bytes())
}

func profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	return mux
}

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address of the service")
	profile := flag.String("pprof", "127.0.0.1:0", "address of Go's profiles; nothing for none")
	flag.Parse()
	if err := serve(*listen, *profile); err != nil {
		fmt.Fprintln(os.Stderr, "flowd:", err)
		os.Exit(1)
	}
}

func serve(listen, profile string) error {
	ending, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	service, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	ready := "ready " + service.Addr().String()
	if profile != "" {
		side, err := net.Listen("tcp", profile)
		if err != nil {
			return err
		}
		ready += " pprof " + side.Addr().String()
		go http.Serve(side, profiles())
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/collect", new(reuse).collect)
	server := &http.Server{Handler: mux}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(service) }()
	fmt.Println(ready)
	select {
	case err := <-failed:
		return err
	case <-ending.Done():
	}
	wait, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := server.Shutdown(wait); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
