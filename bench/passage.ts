/** The text of `--tokens text` where no file is given: plain English of several kinds, to be repeated. */
export const PASSAGE =
  `A lapwing is a wading bird with a long crest and broad, rounded wings. In spring the male
climbs, tumbles and calls over the fields where the nest is going to be. The eggs lie in a shallow scrape; both
parents drive away crows, dogs and walkers, and pretend to be lame so that whoever follows them is led astray.

To time a thing honestly, begin by saying what begins and what ends. A clock that is read before the work is
handed over and again when the answer has arrived measures the work, the waiting, and whatever else the machine
was doing meanwhile. Do it many times. Keep every number. Ask what the hardware could have done at best, and how
much of that was reached; a figure without its limit is an anecdote.

function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

Q: If a train leaves at 9:40 and arrives at 12:15, how long is the journey?
A: From 9:40 to 12:00 is two hours and twenty minutes; fifteen more minutes make two hours and thirty-five minutes.

The harbour was grey that morning. Nets hung from the rails, and a boy was mending one of them with a wooden
needle, counting under his breath. "Seven," he said, "eight," and did not look up when the bell rang. Later they
would say that the ship had come in with no flag at all, but he remembered it differently: a strip of yellow, no
longer than a hand, knotted to the forestay.
`;
