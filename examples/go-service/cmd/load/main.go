// Command load sends reports to flowd for a while, checks what comes back, and prints one line of JSON. It ends with 1 when
// a request failed or an answer was wrong.
//
//	load -to 127.0.0.1:8080 -format binary -seconds 10 -workers 4 -records 500 -seed 1 [-rate 200]
//	load -to 127.0.0.1:8080 -format json -requests 5000
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"os"
	"sort"
	"sync"
	"time"

	"flowd/flow"
)

type outcome struct {
	Requests  int     `json:"requests"`
	Errors    int     `json:"errors"`
	Seconds   float64 `json:"seconds"`
	P50Us     float64 `json:"latency_p50_us"`
	P99Us     float64 `json:"latency_p99_us"`
	Sum       uint32  `json:"crc32_of_first_answer"`
	FirstFail string  `json:"first_error,omitempty"`
}

type worker struct {
	url    string
	report []byte
	expect []byte
	every  time.Duration
	// Requests to go; below 0 until the end.
	left    int
	took    []time.Duration
	errors  int
	failure string
}

func (w *worker) one(client *http.Client) error {
	answer, err := client.Post(w.url, "application/octet-stream", bytes.NewReader(w.report))
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	got, err := io.ReadAll(answer.Body)
	switch {
	case err != nil:
		return err
	case answer.StatusCode != http.StatusOK:
		return fmt.Errorf("%s: %s", answer.Status, bytes.TrimSpace(got))
	case !bytes.Equal(got, w.expect):
		return fmt.Errorf("the answer of %d bytes is not what it should be", len(got))
	}
	return nil
}

// run sends until the end, or what it has to; with a rate, latency runs from when the request was due.
func (w *worker) run(client *http.Client, start, end time.Time) {
	for due := start; w.left != 0 && due.Before(end) && time.Now().Before(end); due = due.Add(w.every) {
		w.left--
		if w.every == 0 {
			due = time.Now()
		} else {
			time.Sleep(time.Until(due))
		}
		if err := w.one(client); err != nil {
			w.errors++
			if w.failure == "" {
				w.failure = err.Error()
			}
		}
		w.took = append(w.took, time.Since(due))
	}
}

func main() {
	to := flag.String("to", "127.0.0.1:8080", "address of flowd")
	format := flag.String("format", "binary", "binary or json")
	seconds := flag.Float64("seconds", 10, "how long")
	requests := flag.Int("requests", 0, "requests of all workers together, for however long; 0: as many as fit into -seconds")
	workers := flag.Int("workers", 4, "requests at a time")
	records := flag.Int("records", 500, "connections in a report")
	seed := flag.Uint64("seed", 1, "seed of the reports")
	rate := flag.Float64("rate", 0, "requests a second by all workers; 0: as fast as it goes")
	flag.Parse()
	filters := []flow.Filter{flow.States(1<<1 | 1<<2 | 1<<3 | 1<<4), flow.NotLoopback{}}
	client := &http.Client{
		Timeout:   30 * time.Second,
		Transport: &http.Transport{MaxIdleConnsPerHost: *workers},
	}
	all := make([]*worker, *workers)
	for i := range all {
		out, ok := flow.New(*format)
		if !ok {
			fmt.Fprintln(os.Stderr, "load: the format must be binary or json")
			os.Exit(2)
		}
		report := flow.Synthetic(*seed+uint64(i), *records)
		flow.Collect(report, filters, out)
		all[i] = &worker{url: "http://" + *to + "/collect?format=" + *format, report: report, expect: out.Bytes(), left: -1}
		if *requests > 0 {
			all[i].left = (*requests + i) / *workers
		}
		if *rate > 0 {
			all[i].every = time.Duration(float64(*workers) / *rate * float64(time.Second))
		}
	}
	start := time.Now()
	end := start.Add(time.Duration(*seconds * float64(time.Second)))
	if *requests > 0 {
		end = start.Add(24 * time.Hour)
	}
	var group sync.WaitGroup
	for i, w := range all {
		group.Add(1)
		go func() {
			defer group.Done()
			w.run(client, start.Add(w.every*time.Duration(i)/time.Duration(len(all))), end)
		}()
	}
	group.Wait()
	found := sum(all)
	found.Seconds = time.Since(start).Seconds()
	json.NewEncoder(os.Stdout).Encode(found)
	if found.Errors > 0 || found.Requests == 0 {
		os.Exit(1)
	}
}

func sum(all []*worker) outcome {
	found := outcome{Sum: crc32.ChecksumIEEE(all[0].expect)}
	var took []time.Duration
	for _, w := range all {
		took = append(took, w.took...)
		found.Errors += w.errors
		if found.FirstFail == "" {
			found.FirstFail = w.failure
		}
	}
	sort.Slice(took, func(a, b int) bool { return took[a] < took[b] })
	found.Requests = len(took)
	if len(took) > 0 {
		found.P50Us = float64(took[len(took)/2]) / 1e3
		found.P99Us = float64(took[len(took)*99/100]) / 1e3
	}
	return found
}
