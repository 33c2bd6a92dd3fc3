/**
 * Maps each fault to the tests that cover it: every row of the failure tables (F: before the first content, S: after
 * it) and every fault of the injection list (1 to 75). `fault-table.test.ts` checks that none is missing and that each
 * named test exists.
 */

/** A file, and the beginning of the name of its test or row; … stands for an interpolated value. */
export type TestCitation = readonly [file: string, name: string]

export type Fault = {
  readonly id: string
  readonly what: string
  readonly citations: readonly TestCitation[]
  /** Aspects that these tests do not cover over real sockets, and the tests that do. */
  readonly note?: string
}

const faults = (name: string): TestCitation => ['test/e2e/faults.test.ts', name]
const around = (name: string): TestCitation => ['test/e2e/faults-process.test.ts', name]
const streams = (name: string): TestCitation => ['test/e2e/streams.test.ts', name]
const toxics = (name: string): TestCitation => ['test/e2e/toxics.test.ts', name]
const formats = (name: string): TestCitation => ['test/e2e/faults-formats.test.ts', name]
const timers = (name: string): TestCitation => ['test/e2e/timers.test.ts', name]
const circuits = (name: string): TestCitation => ['test/e2e/circuits.test.ts', name]
const ledger = (name: string): TestCitation => ['test/e2e/ledger-faults.test.ts', name]
const dial = (name: string): TestCitation => ['src/transport/client/dial.test.ts', name]
const row = (id: string, what: string, proofs: readonly TestCitation[], note?: string): Fault => ({
  id,
  what,
  citations: proofs,
  ...(note !== undefined && { note }),
})

export const FAULTS: readonly Fault[] = [
  // ── Before the first content ───────────────────────────────────────────────────────────────────────────────────
  row('F01', 'a name that does not resolve', [
    faults('an unknown host name'),
    around('a temporary name server failure is retried'),
  ]),
  row('F02', 'refused, unreachable, timed out', [faults('connection refused'), faults('connecting hangs')]),
  row('F03', 'TLS', [
    faults('an untrusted certificate'),
    faults('an expired certificate'),
    faults('a certificate for another host'),
    faults('TLS 1.1 only'),
    faults('plain HTTP instead of TLS'),
  ]),
  row('F04', 'a kept connection that was closed', [
    dial('dial: a stale connection that the upstream ends'),
    dial('dial: a stale connection is replaced once; a second break is a failure'),
  ]),
  row('F05', 'a new connection that breaks', [
    faults('a reset on connecting'),
    faults('a reset after the request'),
    faults('closed after the request'),
  ]),
  row('F06', 'no header block', [
    faults('no header block'),
    timers('circuit.timeout: no header block of a whole answer'),
  ]),
  row('F07', 'a header block without content', [
    faults('a header block and then silence (stream)'),
    faults('comments only'),
    timers('timeout.firstContent: comments only'),
  ]),
  row('F08', 'not HTTP', [faults('not HTTP'), faults('a header block of 17 KiB'), faults('invalid chunked encoding')]),
  row('F09', 'a redirect', [faults('a redirect'), dial('dial: a redirect is not followed')]),
  row('F10', 'an HTML page', [faults('an HTML page')]),
  row('F11', '5xx with an HTML page', [faults('502 with an HTML page')]),
  row('F12', '500, 502, 504', [faults('500'), faults('502'), faults('504')]),
  row('F13', 'overloaded', [
    faults('503'),
    faults('503 with a retry-after'),
    circuits('overload affects the model for every key'),
  ]),
  row('F14', '529, 498', [faults('529'), faults('498')]),
  row('F15', '408, 499, 522, 524', [faults('408'), faults('499'), faults('522'), faults('524')]),
  row('F16', '409', [faults('409')]),
  row('F18', 'a rate limit with a hint', [
    faults('429 with seconds'),
    faults('429 with a date'),
    faults('429 with milliseconds'),
    faults('429 with a short retry-after'),
  ]),
  row('F19', 'a rate limit without a hint', [faults('429 without a hint')]),
  row('F20', 'no quota', [
    faults('429 insufficient_quota'),
    faults('402'),
    faults('Anthropic’s 429 for a spend limit'),
    faults('Anthropic’s 400 for a usage limit'),
  ]),
  row(
    'F21',
    'a daily limit',
    [faults('429 with a long retry-after'), faults('OpenRouter’s 402 with a retry-after')],
    'each vendor’s own messages: test/conformance/errors.test.ts',
  ),
  row('F22', '413 for tokens per minute', [faults('413 for tokens per minute')]),
  row('F23', 'a rejected key', [
    faults('401'),
    faults('Gemini’s 400 for a bad key'),
    circuits('rejected keys do not count as failures'),
  ]),
  row('F24', 'a key without this model', [faults('403 for the model')]),
  row('F25', 'a firewall’s HTML page', [faults('a firewall’s HTML page')]),
  row('F27', 'an invalid request', [faults('rejected for a value'), faults('422')]),
  row('F27b', 'an unsupported parameter', [faults('rejected for a value')]),
  row('F28', 'too long', [faults('too long, by its code'), faults('too long, by its message')]),
  row('F29', 'no such model', [faults('404 for the model')]),
  row('F30', 'rejected for its content', [faults('rejected for its content')]),
  row('F31', 'a body above the upstream’s limit', [faults('a body above the upstream’s limit')]),
  row('F34', 'an error in a 200', [faults('an error in a 200'), faults('a status in a 200')]),
  row('F35', 'an error in a stream before content', [
    faults('an error as the first event'),
    faults('an error after the first event'),
    faults('no quota, after the first event'),
    faults('overloaded, after the first event'),
  ]),
  row('F36', 'an empty answer', [['test/e2e/faults.test.ts', 'faults: an empty answer']]),
  row('F37', 'not an answer', [
    faults('truncated JSON'),
    faults('a JSON object without an answer'),
    faults('an empty 200'),
    faults('a body longer than its content-length'),
  ]),
  row('F39', 'invalid compression, or a bomb', [
    faults('invalid gzip'),
    around('200 MB of spaces in 200 KB of gzip: failover'),
  ]),
  row('F40', 'no usage', [streams('no usage at all')]),
  row('F41', 'an answer too large', [
    faults('faults: an endless event'),
    around('endless stream beginnings are not buffered without limit'),
  ]),
  row('F42', 'no target available', [
    circuits('states when to retry, and that an SDK should not wait that long'),
    circuits('one early probe every ten seconds'),
  ]),
  row(
    'F43',
    'the retry budget is spent',
    [
      ['src/gateway/chat/serve-chat.test.ts', 'handle: after a dead key the next attempt still counts as a retry'],
      ['src/policy/retry/retry-budget.test.ts', 'budget: the floor is three in any second'],
    ],
    'tested in a still world: over sockets the windows of ten seconds would be a race',
  ),
  row('F44', 'the request timeout', [timers('timeout.request: before the header block')]),
  row('F45', 'a disconnect before content', [around('before the header block'), around('waiting for a retry')]),
  row('F46', 'the gateway is full', [['test/e2e/errors.test.ts', 'errors: too many at once']]),
  row('F47', 'an internal error', [
    ['src/server/server-errors.test.ts', 'http: a handler that throws is an internal error'],
  ]),
  row('F48', 'draining', [
    timers('drain.delay: not ready at once'),
    ['src/server/server-lifecycle.test.ts', 'http: a drain continues to serve during its delay'],
  ]),
  row('F49', 'the store is unavailable', [
    around('a full disk'),
    ['test/e2e/stored-responses.test.ts', 'are off if the folder is not writable'],
    ['test/e2e/shared-limits.test.ts', 'a stopped Redis: leases are used'],
  ]),

  // ── After it ───────────────────────────────────────────────────────────────────────────────────────────────────
  row('S01', 'an error in the stream', [streams('an error event')]),
  row('S02', 'an end without a terminator', [
    streams('ended after the first content'),
    streams('ended with its connection, without a length'),
    streams('ended in the middle of an event'),
  ]),
  row('S03', 'a reset', [
    streams('reset after the first content'),
    streams('an invalid chunk'),
    toxics('a … after content'),
  ]),
  row('S04', 'silence', [streams('silence'), timers('timeout.contentIdle: comments in mid-stream')]),
  row(
    'S05',
    'a malformed event',
    [streams('a malformed event in plain text'), streams('a malformed event in a tool call')],
    'an event of the responses format is never skipped: its numbers would have a gap',
  ),
  row('S06', '[DONE] without a finish reason', [streams('[DONE] without a finish reason')]),
  row('S07', 'a finish reason without [DONE]', [
    streams('no [DONE] after a finish reason'),
    streams('no [DONE], and then a reset'),
  ]),
  row('S08', 'bytes after the end', [streams('bytes after the end are not passed on')]),
  row('S09', 'arguments that are not JSON', [streams('arguments that are not JSON are passed to the client')]),
  row('S10', 'an endless answer', [around('an endless answer is ended'), timers('timeout.request: in mid-stream')]),
  row('S11', 'a disconnect', [streams('a disconnect aborts the upstream call')]),
  row('S12', 'a slow client', [
    streams('…: clients that do not read hold their upstreams back'),
    timers('a client that stopped reading is disconnected'),
  ]),
  row('S14', 'a content filter in mid-stream', [streams('a content filter in the middle is final')]),
  row('S15', 'the gateway crashes', [
    around('SIGKILL in mid-stream'),
    ['test/e2e/stored-responses.test.ts', 'killed at any moment'],
  ]),

  // ── Injected ───────────────────────────────────────────────────────────────────────────────────────────────────
  row('1', 'refused', [faults('connection refused')]),
  row('2', 'connecting hangs', [faults('connecting hangs')]),
  row('3', 'DNS fails', [faults('an unknown host name')]),
  row('4', 'DNS changes', [around('a changed address is used')]),
  row('5', 'a bad certificate', [faults('an untrusted certificate')]),
  row('6', 'TLS hangs', [faults('a TLS handshake that hangs')]),
  row('7', 'RST on accept', [faults('a reset on connecting')]),
  row('8', 'RST after the request', [faults('a reset after the request')]),
  row('9', 'FIN after the request', [faults('closed after the request')]),
  row('10', 'a stale connection', [dial('dial: a stale connection that the upstream ends')]),
  row('11', 'no header block', [faults('no header block'), toxics('the request is lost')]),
  row('12', 'a header block at 1 B/s', [toxics('a header block at 1 B/s')]),
  row('13', 'a header block of 17 KiB', [faults('a header block of 17 KiB')]),
  row('14', 'not HTTP', [faults('not HTTP')]),
  row('15', 'a bad chunk', [faults('invalid chunked encoding'), streams('an invalid chunk')]),
  row('16', 'a content-length too long', [faults('a body shorter than its content-length')]),
  row('17', 'a content-length too long, and silence', [faults('a header block and then silence (whole)')]),
  row('18', '302', [faults('a redirect')]),
  row('19', 'floods of 100 and 103', [
    faults('endless interim responses'),
    faults('an unexpected 100 Continue'),
    faults('an interim response first'),
  ]),
  row('20', '204, an empty 200', [faults('a 204'), faults('an empty 200'), faults('an empty stream')]),
  row('21', 'an HTML page with 200', [faults('an HTML page')]),
  row('22', 'an HTML page with 502', [faults('502 with an HTML page')]),
  row('23', '500', [faults('500')]),
  row('24', '503 with a retry-after', [faults('503 with a retry-after'), faults('503 with a long retry-after')]),
  row('25', '529', [faults('529')]),
  row('26', '498', [faults('498')]),
  row('27', '408', [faults('408')]),
  row('28', '409', [faults('409')]),
  row('29', '429 with seconds', [faults('429 with seconds')]),
  row('30', '429 with a date', [faults('429 with a date')]),
  row('31', '429 with ms', [faults('429 with milliseconds')]),
  row('32', '429 without a hint', [faults('429 without a hint')]),
  row('33', '429 insufficient_quota', [faults('429 insufficient_quota')]),
  row('34', 'Anthropic’s spend limit', [faults('Anthropic’s 429 for a spend limit')]),
  row('35', 'Anthropic’s 400 for a usage limit', [faults('Anthropic’s 400 for a usage limit')]),
  row('36', '402', [faults('402')]),
  row('37', '401', [faults('401')]),
  row('38', '400 API_KEY_INVALID', [faults('Gemini’s 400 for a bad key')]),
  row('39', '403 for the model', [faults('403 for the model')]),
  row('40', '403 with an HTML page', [faults('a firewall’s HTML page')]),
  row('41', '404 for the model', [faults('404 for the model')]),
  row('42', '413 for tokens per minute', [faults('413 for tokens per minute')]),
  row('43', 'too long', [faults('too long, by its code'), faults('too long, by its message')]),
  row('44', 'a content filter, 400', [faults('rejected for its content')]),
  row('45', 'a content filter in the stream', [streams('a content filter in the middle is final')]),
  row('46', 'an error in a 200', [faults('an error in a 200')]),
  row('47', 'an error first', [faults('an error as the first event')]),
  row('48', 'an error after the first event', [faults('an error after the first event')]),
  row('49', 'comments only', [faults('comments only')]),
  row('50', 'silence after the header block', [faults('a header block and then silence (stream)')]),
  row('51', 'silence in mid-stream', [streams('silence')]),
  row('52', 'RST in mid-stream', [
    streams('reset after the first content'),
    formats('the stream ends after its first content (…)'),
  ]),
  row('53', 'a clean end in mid-stream', [streams('ended with its connection, without a length')]),
  row('54', 'no [DONE]', [streams('no [DONE] after a finish reason')]),
  row('55', 'no finish reason', [streams('[DONE] without a finish reason')]),
  row('56', 'a malformed line', [streams('a malformed event in plain text')]),
  row('57', 'slices, line ends, BOM', [
    faults('single bytes'),
    faults('CRLF line ends'),
    faults('a BOM, comments, and no space after the colon'),
    toxics('the answer in single bytes'),
  ]),
  row('58', 'an event of more than 8 MB', [faults('faults: an endless event')]),
  row('59', 'an endless answer', [around('an endless answer is ended')]),
  row('60', 'an empty answer', [faults('faults: an empty answer')]),
  row('61', 'usage missing, negative, huge', [streams('no usage at all'), streams('a usage of …')]),
  row('62', 'a gzip bomb', [around('200 MB of spaces in 200 KB of gzip: a sole provider'), dial('a bomb')]),
  row('63', 'invalid gzip', [faults('invalid gzip'), faults('compressed although identity was requested')]),
  row('64', '1 KB/s', [toxics('1 KB/s')]),
  row('65', 'a jitter of 2 s', [toxics('a jitter of 2 s')]),
  row('66', 'bytes twice and after the end', [streams('bytes after the end are not passed on')]),
  row('67', 'a slow client', [streams('…: clients that do not read hold their upstreams back'), toxics('2 KB/s')]),
  row('68', 'a disconnect at each phase', [
    around('sending its request'),
    around('while connecting'),
    around('before the header block'),
    around('before content'),
    around('waiting for a retry'),
    around('in mid-stream'),
    around('in the middle of a whole answer'),
  ]),
  row(
    '69',
    'a half-closed client',
    [
      streams('…: a client that half-closes counts as disconnected'),
      around('faults: a client disconnects at each phase'),
    ],
    'it counts as disconnected, because a crashed client looks the same',
  ),
  row('70', 'a full disk', [
    around('a full disk'),
    ['src/storage/responses/database.test.ts', 'store: a full disk is an error, and stored responses remain'],
    ledger('with `serve` no request fails'),
    ledger('with `refuse` nothing is served unrecorded'),
    ledger('a limit of the size of files'),
    ledger('a read-only folder from the start'),
    ledger('usage.db is locked by another process'),
    ledger('the journal is deleted while it is written'),
    ledger('control.db is locked'),
  ]),
  row('71', 'no descriptors', [around('out of file descriptors')]),
  row(
    '72',
    'the clock jumps',
    [['src/runtime/world.test.ts', 'world: no timer fires before its time by the same clock']],
    'the test cannot move the clock without root: every wait uses the monotonic clock (core/world.ts), and the simulator moves the wall clock',
  ),
  row('73', 'SIGTERM at each phase', [
    around('SIGTERM'),
    timers('drain.timeout: …: a stream that does not end in time gets an error event'),
  ]),
  row('74', 'SIGKILL', [
    around('SIGKILL in mid-stream'),
    ['test/e2e/kill.test.ts', 'kill: an upstream dies'],
    ledger('…: every call that reached an upstream has one row'),
    ['test/e2e/charges.test.ts', 'the process was killed: its reservation is charged, once'],
  ]),
  row('75', 'a reload that removes the provider', [
    ['test/e2e/reload.test.ts', 'a valid change is applied automatically'],
  ]),
]
