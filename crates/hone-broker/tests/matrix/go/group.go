package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const members = 3

// seen holds the values that the members of a group have read.
type seen struct {
	lock   sync.Mutex
	values map[string]bool
	read   int
}

func (s *seen) add(records []*kgo.Record) {
	s.lock.Lock()
	defer s.lock.Unlock()
	for _, record := range records {
		s.values[string(record.Value)] = true
	}
	s.read += len(records)
}

func (s *seen) distinct() int {
	s.lock.Lock()
	defer s.lock.Unlock()
	return len(s.values)
}

// member of a group, polling in a goroutine of its own until it is told to leave.
type member struct {
	lock        sync.Mutex
	owned       []int
	revocations atomic.Int32
	leaving     context.CancelFunc
	left        chan struct{}
}

func join(p parameters, instance string, into *seen) *member {
	ctx, leaving := context.WithCancel(context.Background())
	joined := &member{leaving: leaving, left: make(chan struct{})}
	options := []kgo.Opt{
		kgo.ConsumeTopics(p["topic"]), kgo.ConsumerGroup(p["group"]),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.HeartbeatInterval(200 * time.Millisecond),
		kgo.SessionTimeout(10 * time.Second),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, gained map[string][]int32) {
			joined.change(func(owned []int) []int {
				for _, partition := range gained[p["topic"]] {
					owned = append(owned, int(partition))
				}
				return owned
			})
		}),
		kgo.OnPartitionsRevoked(func(ctx context.Context, consumer *kgo.Client, lost map[string][]int32) {
			_ = consumer.CommitUncommittedOffsets(ctx)
			joined.lose(lost[p["topic"]])
		}),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
			joined.lose(lost[p["topic"]])
		}),
	}
	if instance != "" {
		options = append(options, kgo.InstanceID(instance))
	}
	if p["protocol"] == "consumer" {
		options = append(options, kgo.ServerSideBalancer())
	}
	consumer := client(options...)
	go func() {
		defer close(joined.left)
		for ctx.Err() == nil {
			into.add(consumer.PollRecords(ctx, 500).Records())
		}
		_ = consumer.CommitUncommittedOffsets(within())
		consumer.Close()
	}()
	return joined
}

func (m *member) change(change func([]int) []int) {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.owned = change(m.owned)
	slices.Sort(m.owned)
}

func (m *member) lose(lost []int32) {
	if len(lost) > 0 {
		m.revocations.Add(1)
	}
	m.change(func(owned []int) []int {
		return slices.DeleteFunc(owned, func(one int) bool { return slices.Contains(lost, int32(one)) })
	})
}

func (m *member) leave() {
	m.leaving()
	<-m.left
}

// balanced tells the members' partitions, once each has one owner and the numbers differ by one at most.
func balanced(who []*member, partitions int) [][]int {
	owned, all, least, most := [][]int{}, []int{}, partitions, 0
	for _, one := range who {
		one.lock.Lock()
		own := append([]int{}, one.owned...)
		one.lock.Unlock()
		owned, all = append(owned, own), append(all, own...)
		least, most = min(least, len(own)), max(most, len(own))
	}
	slices.Sort(all)
	for partition := range partitions {
		if len(all) != partitions || all[partition] != partition {
			return nil
		}
	}
	if most-least > 1 {
		return nil
	}
	return owned
}

func settle(step string, who []*member, partitions int) [][]int {
	var owned [][]int
	describe := func() string {
		own := [][]int{}
		for _, one := range who {
			one.lock.Lock()
			own = append(own, slices.Clone(one.owned))
			one.lock.Unlock()
		}
		return fmt.Sprintf("%s: owned %v", step, own)
	}
	waitFor(describe, func() bool {
		owned = balanced(who, partitions)
		return owned != nil
	})
	return owned
}

// group: three members; one leaves; another one comes. Records are written in each of the three phases.
func group(p parameters) {
	partitions, records := p.number("partitions"), p.number("records")
	producer := client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer producer.Close()
	into := &seen{values: map[string]bool{}}
	var who []*member
	for range members {
		who = append(who, join(p, "", into))
	}
	defer func() {
		for _, one := range who {
			one.leaving()
		}
	}()
	phase := func(step string, number int) {
		send(producer, values(number*records, (number+1)*records, func(number int) *kgo.Record {
			return &kgo.Record{Topic: p["topic"], Partition: int32(number % partitions)}
		})...)
		owned, wanted := settle(step, who, partitions), (number+1)*records
		waitFor(func() string { return fmt.Sprintf("%s: %d of %d records", step, into.distinct(), wanted) },
			func() bool { return into.distinct() >= wanted })
		say(step, fields{"owned": owned, "distinct": into.distinct()})
	}
	phase("three", 0)
	who[members-1].leave()
	who = who[:members-1]
	phase("left", 1)
	who = append(who, join(p, "", into))
	phase("joined", 2)
	for _, one := range who {
		one.leave()
	}
	say("group", fields{"records": into.read, "distinct": into.distinct()})
}

// static: a static member that goes and comes back finds its partitions, and the others notice nothing.
func static(p parameters) {
	partitions, into := p.number("partitions"), &seen{values: map[string]bool{}}
	instance := func(number int) string { return fmt.Sprintf("instance-%d", number) }
	var who []*member
	for number := range members {
		who = append(who, join(p, instance(number), into))
	}
	revocations := func() (all int32) {
		for _, one := range who[:members-1] {
			all += one.revocations.Load()
		}
		return all
	}
	before := settle("three static members", who, partitions)
	calm := revocations()
	who[members-1].leave()
	who[members-1] = join(p, instance(members-1), into)
	after := settle("three static members again", who, partitions)
	revoked := revocations() != calm
	for _, one := range who {
		one.leave()
	}
	say("static", fields{"before": before, "after": after, "revoked": revoked})
}
