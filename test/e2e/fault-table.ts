/**
 * Which test proves what becomes of which fault: every row of the failure tables (F before the first content, S after
 * it) and every fault of the injection list (1 to 75). `fault-table.test.ts` holds that none is missing and that each
 * test named here is one.
 */

/** The file, and how the name of the test, or of the row that makes it, begins; … is what stands for something else there. */
export type Proof = readonly [file: string, name: string]

export type Fault = {
  readonly id: string
  readonly what: string
  readonly proofs: readonly Proof[]
  /** What of it is not shown over real sockets, and where it is. */
  readonly note?: string
}

const faults = (name: string): Proof => ['test/e2e/faults.test.ts', name]
const around = (name: string): Proof => ['test/e2e/faults-process.test.ts', name]
const streams = (name: string): Proof => ['test/e2e/streams.test.ts', name]
const toxics = (name: string): Proof => ['test/e2e/toxics.test.ts', name]
const formats = (name: string): Proof => ['test/e2e/faults-formats.test.ts', name]
const timers = (name: string): Proof => ['test/e2e/timers.test.ts', name]
const circuits = (name: string): Proof => ['test/e2e/circuits.test.ts', name]
const dial = (name: string): Proof => ['src/edge/upstream-http/dial.test.ts', name]
const row = (id: string, what: string, proofs: readonly Proof[], note?: string): Fault => ({
  id,
  what,
  proofs,
  ...(note !== undefined && { note }),
})

export const FAULTS: readonly Fault[] = [
  // ── Before the first content ───────────────────────────────────────────────────────────────────────────────────
  row('F01', 'a name that does not resolve', [
    faults('a host name nobody has'),
    around('a name server that fails for a moment is asked once more'),
  ]),
  row('F02', 'refused, unreachable, not in time', [faults('nobody listens'), faults('connecting hangs')]),
  row('F03', 'TLS', [
    faults('a certificate nobody vouches for'),
    faults('a certificate that is over'),
    faults('a certificate for another host'),
    faults('nothing newer than TLS 1.1'),
    faults('HTTP where TLS should be'),
  ]),
  row('F04', 'a kept connection that was closed', [
    dial('dial: a connection the upstream ends'),
    dial('dial: it is made anew once; a second break is the upstream’s'),
  ]),
  row('F05', 'a fresh connection that breaks', [
    faults('a reset on connecting'),
    faults('a reset after the request'),
    faults('closed after the request'),
  ]),
  row('F06', 'no head', [faults('no head'), timers('circuit.timeout: no head of a whole answer')]),
  row('F07', 'a head, and no content', [
    faults('a head and then silence (stream)'),
    faults('comments only'),
    timers('timeout.firstContent: comments only'),
  ]),
  row('F08', 'not HTTP', [faults('not HTTP'), faults('a head of 17 KiB'), faults('broken chunks')]),
  row('F09', 'a redirect', [faults('a redirect'), dial('dial: a redirect is not followed')]),
  row('F10', 'a page', [faults('a web page')]),
  row('F11', '5xx as a page', [faults('502 as a page')]),
  row('F12', '500, 502, 504', [faults('500'), faults('502'), faults('504')]),
  row('F13', 'overloaded', [
    faults('503'),
    faults('503 with a wait'),
    circuits('overload is the model’s, whatever the key'),
  ]),
  row('F14', '529, 498', [faults('529'), faults('498')]),
  row('F15', '408, 499, 522, 524', [faults('408'), faults('499'), faults('522'), faults('524')]),
  row('F16', '409', [faults('409')]),
  row('F18', 'a limit with a hint', [
    faults('429 with seconds'),
    faults('429 with a date'),
    faults('429 with milliseconds'),
    faults('429 with a short wait'),
  ]),
  row('F19', 'a limit without a hint', [faults('429 without a hint')]),
  row('F20', 'no quota', [
    faults('429 insufficient_quota'),
    faults('402'),
    faults('Anthropic’s 429 for a spend limit'),
    faults('Anthropic’s 400 for a usage limit'),
  ]),
  row(
    'F21',
    'a daily limit',
    [faults('429 with a long wait'), faults('OpenRouter’s 402 with a wait')],
    'each vendor’s own words: test/conformance/errors.test.ts',
  ),
  row('F22', '413 for the tokens of a minute', [faults('413 for the tokens of a minute')]),
  row('F23', 'a key refused', [
    faults('401'),
    faults('Gemini’s 400 for a bad key'),
    circuits('refused keys are no failure of health'),
  ]),
  row('F24', 'a key without this model', [faults('403 for the model')]),
  row('F25', 'a firewall’s page', [faults('a firewall’s page')]),
  row('F27', 'the request’s own fault', [faults('refused for a value'), faults('422')]),
  row('F27b', 'a parameter it does not take', [faults('refused for a value')]),
  row('F28', 'too long', [faults('too long, by its code'), faults('too long, in words')]),
  row('F29', 'no such model', [faults('404 for the model')]),
  row('F30', 'refused for its content', [faults('refused for its content')]),
  row('F31', 'a body too large there', [faults('a body that is too large there')]),
  row('F34', 'an error in a 200', [faults('an error in a 200'), faults('a status in a 200')]),
  row('F35', 'an error in a stream before content', [
    faults('an error as the first event'),
    faults('an error after the beginning'),
    faults('no quota, after the beginning'),
    faults('overloaded, after the beginning'),
  ]),
  row('F36', 'nothing said', [['test/e2e/faults.test.ts', 'faults: nothing said']]),
  row('F37', 'not an answer', [
    faults('half a JSON'),
    faults('an object without an answer'),
    faults('an empty 200'),
    faults('a body longer than it says'),
  ]),
  row('F39', 'an encoding that is none, or a bomb', [
    faults('gzip that is none'),
    around('200 MB of blanks in 200 KB of gzip: another answers'),
  ]),
  row('F40', 'no usage', [streams('no usage at all')]),
  row('F41', 'an answer too large', [
    faults('faults: an event without end'),
    around('beginnings without end are not held for ever'),
  ]),
  row('F42', 'nobody may be asked', [
    circuits('says when to come back, and that an SDK should not wait so long'),
    circuits('one early probe every ten seconds'),
  ]),
  row(
    'F43',
    'the budget of repeats is spent',
    [
      ['src/gateway/chat/serve-chat.test.ts', 'handle: a dead key does not make the repeat behind it the first try'],
      ['src/policy/retry/retry-budget.test.ts', 'budget: the floor is three in any second'],
    ],
    'in a world that stands still: over sockets the windows of ten seconds would be a race',
  ),
  row('F44', 'the time for everything', [timers('timeout.request: before anything')]),
  row('F45', 'the client left before content', [around('before the head'), around('waiting to ask once more')]),
  row('F46', 'the gateway is full', [['test/e2e/errors.test.ts', 'errors: too many at once']]),
  row('F47', 'a bug of ours', [['src/edge/http/app/server.test.ts', 'http: a handler that throws is our fault']]),
  row('F48', 'draining', [
    timers('drain.delay: not ready at once'),
    ['src/edge/http/app/server.test.ts', 'http: a drain serves on for a while'],
  ]),
  row(
    'F49',
    'the store is down',
    [
      around('no room on the disk'),
      ['test/e2e/stored-responses.test.ts', 'is nothing where the folder cannot be written'],
    ],
    'there is no Redis or Postgres to be down',
  ),

  // ── After it ───────────────────────────────────────────────────────────────────────────────────────────────────
  row('S01', 'an error in the stream', [streams('an error of its own')]),
  row('S02', 'an end without a terminator', [
    streams('ended after the first content'),
    streams('ended with its connection, without a length'),
    streams('ended in the middle of an event'),
  ]),
  row('S03', 'a reset', [
    streams('reset after the first content'),
    streams('a chunk that is none'),
    toxics('a … after content'),
  ]),
  row('S04', 'silence', [streams('silence'), timers('timeout.contentIdle: comments in the middle')]),
  row(
    'S05',
    'an event that cannot be read',
    [
      streams('an event that cannot be read, in the middle of plain text'),
      streams('an event that cannot be read, in the middle of a call'),
    ],
    'an event of the responses format is never left out: its numbers would have a gap',
  ),
  row('S06', '[DONE] without a reason', [streams('[DONE] and no reason to finish')]),
  row('S07', 'a reason without [DONE]', [streams('no [DONE] after a finish'), streams('no [DONE], and then a reset')]),
  row('S08', 'bytes after the end', [streams('bytes after the end are not passed on')]),
  row('S09', 'arguments that are no JSON', [streams('arguments that are no JSON go to the client')]),
  row('S10', 'no end', [around('an answer without end is ended'), timers('timeout.request: in the middle')]),
  row('S11', 'the client left', [streams('one that leaves ends its upstream call')]),
  row('S12', 'a slow client', [
    streams('…: ones that do not read hold their upstreams back'),
    timers('a client that stopped reading is given up on'),
  ]),
  row('S14', 'a content filter in the middle', [streams('a content filter in the middle is final')]),
  row('S15', 'the gateway dies', [
    around('SIGKILL in the middle of a stream'),
    ['test/e2e/stored-responses.test.ts', 'killed at any moment'],
  ]),

  // ── Injected ───────────────────────────────────────────────────────────────────────────────────────────────────
  row('1', 'refused', [faults('nobody listens')]),
  row('2', 'connecting hangs', [faults('connecting hangs')]),
  row('3', 'DNS fails', [faults('a host name nobody has')]),
  row('4', 'DNS flips', [around('a name that moves is followed')]),
  row('5', 'a bad certificate', [faults('a certificate nobody vouches for')]),
  row('6', 'TLS hangs', [faults('a handshake that hangs')]),
  row('7', 'RST on accept', [faults('a reset on connecting')]),
  row('8', 'RST after the request', [faults('a reset after the request')]),
  row('9', 'FIN after the request', [faults('closed after the request')]),
  row('10', 'a stale connection', [dial('dial: a connection the upstream ends')]),
  row('11', 'no head', [faults('no head'), toxics('the question is swallowed')]),
  row('12', 'a head at 1 B/s', [toxics('a head at 1 B/s')]),
  row('13', 'a head of 17 KiB', [faults('a head of 17 KiB')]),
  row('14', 'not HTTP', [faults('not HTTP')]),
  row('15', 'a bad chunk', [faults('broken chunks'), streams('a chunk that is none')]),
  row('16', 'a length too long', [faults('a body shorter than it says')]),
  row('17', 'a length too long, and silence', [faults('a head and then silence (whole)')]),
  row('18', '302', [faults('a redirect')]),
  row('19', 'floods of 100 and 103', [
    faults('interim answers without end'),
    faults('100 Continue, for which nobody waits'),
    faults('an interim answer first'),
  ]),
  row('20', '204, an empty 200', [faults('a 204'), faults('an empty 200'), faults('a stream without anything')]),
  row('21', 'a page with 200', [faults('a web page')]),
  row('22', 'a page with 502', [faults('502 as a page')]),
  row('23', '500', [faults('500')]),
  row('24', '503 with a wait', [faults('503 with a wait'), faults('503 with a long wait')]),
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
  row('40', '403 as a page', [faults('a firewall’s page')]),
  row('41', '404 for the model', [faults('404 for the model')]),
  row('42', '413 for the tokens of a minute', [faults('413 for the tokens of a minute')]),
  row('43', 'too long', [faults('too long, by its code'), faults('too long, in words')]),
  row('44', 'a content filter, 400', [faults('refused for its content')]),
  row('45', 'a content filter in the stream', [streams('a content filter in the middle is final')]),
  row('46', 'an error in a 200', [faults('an error in a 200')]),
  row('47', 'an error first', [faults('an error as the first event')]),
  row('48', 'an error after the beginning', [faults('an error after the beginning')]),
  row('49', 'comments only', [faults('comments only')]),
  row('50', 'silence after the head', [faults('a head and then silence (stream)')]),
  row('51', 'silence in the middle', [streams('silence')]),
  row('52', 'RST in the middle', [
    streams('reset after the first content'),
    formats('it ends behind its first words (…)'),
  ]),
  row('53', 'a clean end in the middle', [streams('ended with its connection, without a length')]),
  row('54', 'no [DONE]', [streams('no [DONE] after a finish')]),
  row('55', 'no reason', [streams('[DONE] and no reason to finish')]),
  row('56', 'a malformed line', [streams('an event that cannot be read, in the middle of plain text')]),
  row('57', 'slices, line ends, marks', [
    faults('single bytes'),
    faults('lines that end as on Windows'),
    faults('a mark before it, comments between, no space after the colon'),
    toxics('the answer in single bytes'),
  ]),
  row('58', 'an event of more than 8 MB', [faults('faults: an event without end')]),
  row('59', 'no end', [around('an answer without end is ended')]),
  row('60', 'nothing said', [faults('faults: nothing said')]),
  row('61', 'usage missing, negative, huge', [streams('no usage at all'), streams('a usage of …')]),
  row('62', 'a gzip bomb', [around('200 MB of blanks in 200 KB of gzip: nobody else'), dial('a bomb')]),
  row('63', 'gzip that is none', [faults('gzip that is none'), faults('compressed although plain text was asked for')]),
  row('64', '1 KB/s', [toxics('1 KB/s')]),
  row('65', 'a jitter of 2 s', [toxics('a jitter of 2 s')]),
  row('66', 'bytes twice and after the end', [streams('bytes after the end are not passed on')]),
  row('67', 'a slow client', [streams('…: ones that do not read hold their upstreams back'), toxics('2 KB/s')]),
  row('68', 'a client leaves at any moment', [
    around('sending its question'),
    around('while a connection is made'),
    around('before the head'),
    around('before content'),
    around('waiting to ask once more'),
    around('in the middle of a stream'),
    around('in the middle of a whole answer'),
  ]),
  row(
    '69',
    'a half-closed client',
    [streams('…: one that closes its sending side has left'), around('a client leaves')],
    'it has left: a process that died looks no different',
  ),
  row('70', 'a full disk', [
    around('no room on the disk'),
    ['src/edge/store/database.test.ts', 'store: a full disk is an error, and what was there stays'],
  ]),
  row('71', 'no descriptors', [around('no file descriptor is left')]),
  row(
    '72',
    'the clock jumps',
    [['src/edge/process/world.test.ts', 'world: no timer fires before its time by the same clock']],
    'no clock of the process can be moved here without root: every wait is on the monotonic clock (core/world.ts), and the simulator moves the other',
  ),
  row('73', 'SIGTERM at any moment', [around('SIGTERM'), timers('drain.timeout: …: one that cannot is told so')]),
  row('74', 'SIGKILL', [
    around('SIGKILL in the middle of a stream'),
    ['test/e2e/kill.test.ts', 'kill: an upstream dies'],
  ]),
  row('75', 'a reload that removes the provider', [['test/e2e/reload.test.ts', 'a good change is applied by itself']]),
]
