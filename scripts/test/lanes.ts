/** Which test files a lane runs, and how each of them runs. Pure: files and durations are arguments. */

/** How a file runs: in one process with others; in a process of its own, beside others; or with nothing else running. */
export type Isolation = 'shared' | 'process' | 'alone'

export type Lane = {
  readonly about: string
  readonly has: (file: string) => boolean
  /** Types, lint and unused code are checked first. */
  readonly checks: boolean
}

const startsWith =
  (...prefixes: readonly string[]) =>
  (file: string): boolean =>
    prefixes.some((prefix) => file.startsWith(prefix))

const isQuick = startsWith(
  'src/',
  'packages/',
  'suite/faults',
  'scripts/',
  'test/arrows',
  'test/language',
  'test/type-names',
  'test/support/',
  'test/costs/',
  'test/e2e/quick',
  'test/conformance/roundtrip',
  'test/conformance/exchanges',
  'test/reported/',
  'test/docs/errors',
  'test/docs/names',
  'test/docs/site',
  'test/dashboard/pure',
  'test/dashboard/smoke',
)

/** `quick` is `npm test`; each other lane is `npm run test:<name>`. */
export const LANES = {
  quick: {
    about: 'types, lint, unit and protocol tests, one start of the gateway',
    has: isQuick,
    checks: true,
  },
  e2e: { about: 'the gateway as a process, against upstreams that fail', has: startsWith('test/e2e/'), checks: false },
  conformance: {
    about: 'every translation, on own exchanges, recorded traffic and published schemas',
    has: startsWith('test/conformance/', 'test/conversations/'),
    checks: false,
  },
  clients: {
    about: 'official SDKs, other client libraries, and the examples',
    has: startsWith(
      'test/examples',
      'test/e2e/client',
      'test/e2e/sdk-',
      'test/e2e/schemathesis',
      'test/e2e/web-socket',
    ),
    checks: false,
  },
  dashboard: {
    about: 'the dashboard in a browser, against a real gateway',
    has: startsWith('test/dashboard/'),
    checks: false,
  },
  security: { about: 'attacks', has: startsWith('test/security/'), checks: false },
  all: { about: 'everything, as CI does; a part of each long test', has: () => true, checks: true },
  long: {
    about: 'long tests in full: hours',
    has: startsWith(
      'src/protocols/framing/web-socket-frames.test',
      'src/transport/server/proxy-protocol.test',
      'src/usage/bookkeeper/bookkeeper.test',
      'test/conversations/',
      'test/dashboard/pictures',
      'test/ledger/',
      'test/scenario/',
      'tools/mutation/',
      'tools/sim/',
      'tools/soak/',
    ),
    checks: false,
  },
} as const satisfies { readonly [name: string]: Lane }

export type LaneName = keyof typeof LANES

/** Folders without I/O and without module state: their tests can share a process, which takes a quarter of the time. */
const isPure = startsWith('src/core/', 'src/policy/', 'src/protocols/', 'src/providers/', 'src/gateway/')
/**
 * Files that compare durations with fixed limits, or use both cores for seconds. All others wait for conditions: three at a
 * time, they pass on two cores with a load of 10.
 */
export const ALONE = [
  'src/runtime/heap-tuning',
  'suite/reference',
  'test/conformance/bulk',
  'test/e2e/abandoned',
  'test/e2e/rolling-restart',
  'test/e2e/timers',
  'test/e2e/toxics',
  'test/scenario/',
  'test/security/bombs',
  'test/security/regexes',
] as const
const runsAlone = startsWith(...ALONE)

/** How a file runs, by its path, so that new files are included. */
export const isolationOf = (file: string): Isolation => {
  if (runsAlone(file)) return 'alone'
  return isPure(file) ? 'shared' : 'process'
}

/** Recorded durations by file, in seconds; a file that takes less than a second has none. */
export type Times = { readonly [file: string]: number }

/** Longest first, so that no long file is left for the end; equal ones by name. */
export const longestFirst = (files: readonly string[], times: Times): readonly string[] =>
  [...files].sort((a, b) => (times[b] ?? 0) - (times[a] ?? 0) || (a < b ? -1 : 1))

/** Divides files over `count` processes so that each has about as much to do. Parts without files are left out. */
export const divide = (files: readonly string[], count: number, times: Times): readonly (readonly string[])[] => {
  const parts = Array.from({ length: count }, () => ({ files: [] as string[], total: 0 }))
  for (const file of longestFirst(files, times)) {
    const least = parts.reduce((best, part) => (part.total < best.total ? part : best))
    least.files.push(file)
    least.total += times[file] ?? 0.2
  }
  return parts.map((part) => part.files).filter((part) => part.length > 0)
}
