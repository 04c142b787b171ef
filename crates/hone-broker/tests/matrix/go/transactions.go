package main

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

func transactional(id string) []kgo.Opt {
	return []kgo.Opt{kgo.TransactionalID(id), kgo.TransactionTimeout(30 * time.Second)}
}

func wave(topic string, first, count int) []*kgo.Record {
	return values(first, first+count, func(int) *kgo.Record { return &kgo.Record{Topic: topic} })
}

func finish(p parameters) kgo.TransactionEndTry { return p["finish"] == "commit" }

func transaction(p parameters) {
	producer := client(transactional(p["id"])...)
	defer producer.Close()
	must(producer.BeginTransaction())
	send(producer, wave(p["topic"], p.number("first"), p.number("records"))...)
	must(producer.EndTransaction(within(), finish(p)))
	say("txn", fields{"records": p.number("records")})
}

// transactionOffsets reads records of the source, writes as many to the topic, and sends the offsets along.
func transactionOffsets(p parameters) {
	wanted := p.number("records")
	session, err := kgo.NewGroupTransactSession(append(transactional(p["id"]), kgo.SeedBrokers(bootstrap),
		kgo.ConsumerGroup(p["group"]), kgo.ConsumeTopics(p["source"]), kgo.RequireStableFetchOffsets(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	must(err)
	defer session.Close()
	must(session.Begin())
	var found []*kgo.Record
	waitFor(func() string { return fmt.Sprintf("%d of %d records read", len(found), wanted) }, func() bool {
		// What a session has polled is what it commits, so not a record more may be polled than is wanted.
		found = append(found, session.PollRecords(within(), wanted-len(found)).Records()...)
		return len(found) >= wanted
	})
	for _, record := range found {
		must(session.ProduceSync(within(), &kgo.Record{Topic: p["topic"], Value: record.Value}).FirstErr())
	}
	ended, err := session.End(within(), finish(p))
	must(err)
	if ended != bool(finish(p)) {
		panic("the session ended the transaction in another way than told")
	}
	say("txn-offsets", fields{"records": len(found)})
}

// transactionOpen tells what readers see while a transaction is open, and what the admin client says of it.
func transactionOpen(p parameters) {
	topic, visible, records := p["topic"], p.number("visible"), p.number("records")
	producer, admin := client(transactional(p["id"])...), admin()
	defer producer.Close()
	defer admin.Close()
	must(producer.BeginTransaction())
	send(producer, wave(topic, 0, records)...)
	everything := read(topic, 1, visible+records, kgo.ReadUncommitted())
	committed := read(topic, 1, visible, kgo.ReadCommitted())
	say("txn-open", fields{"committed": len(committed), "uncommitted": len(everything)})
	attempt("list-transactions", func() fields {
		listed, err := admin.ListTransactions(within(), nil, []string{"Ongoing"})
		must(err)
		return fields{"ongoing": listed.TransactionalIDs()}
	})
	attempt("describe-producers", func() fields {
		wanted := kadm.TopicsSet{}
		wanted.Add(topic, 0)
		described, err := admin.DescribeProducers(within(), wanted)
		must(err)
		open := 0
		described.EachProducer(func(producer kadm.DescribedProducer) {
			if producer.CurrentTxnStartOffset >= 0 {
				open++
			}
		})
		return fields{"open": open}
	})
	must(producer.EndTransaction(within(), kgo.TryAbort))
}

// transactionFence: a second producer of the same id takes over; the first one must notice.
func transactionFence(p parameters) {
	zombie := client(transactional(p["id"])...)
	must(zombie.BeginTransaction())
	send(zombie, &kgo.Record{Topic: p["topic"], Value: []byte("of the zombie")})
	heir := client(transactional(p["id"])...)
	defer heir.Close()
	_, _, err := heir.ProducerID(within())
	must(err)
	var fenced any
	err = zombie.ProduceSync(within(), &kgo.Record{Topic: p["topic"], Value: []byte("of the zombie, too")}).FirstErr()
	if err == nil {
		err = zombie.EndTransaction(within(), kgo.TryCommit)
	}
	if err != nil {
		fenced = err.Error()
	}
	must(heir.BeginTransaction())
	send(heir, wave(p["topic"], 0, p.number("records"))...)
	must(heir.EndTransaction(within(), kgo.TryCommit))
	zombie.Close()
	say("txn-fence", fields{"records": p.number("records"), "fenced": fenced})
}
