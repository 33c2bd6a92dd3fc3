/** Folds a CPU profile of V8 into time by function, by part of the program and by call path. Pure. */

type CallFrame = { readonly functionName: string; readonly url: string; readonly lineNumber: number }
/** A `.cpuprofile` as V8 writes it; times in µs of the monotonic clock, `timeDeltas[n]` before `samples[n]`. */
export type CpuProfile = {
  readonly nodes: readonly {
    readonly id: number
    readonly callFrame: CallFrame
    readonly children?: readonly number[]
  }[]
  readonly startTime: number
  readonly samples: readonly number[]
  readonly timeDeltas: readonly number[]
}

export type Frame = { readonly name: string; readonly place: string; readonly area: string }
/** A function along one call path. `self`: µs without callees; `total`: with them. */
export type Call = Frame & { self: number; total: number; readonly calls: Call[] }

/** µs of the monotonic clock. */
export type Window = { readonly from: number; readonly to: number }

/** The first pattern that matches the place wins. */
const AREAS: readonly (readonly [RegExp, string])[] = [
  [/^src\/transport\/client\//, 'headgate: client of providers'],
  [/^src\/(?:transport\/server|server)\//, 'headgate: server'],
  [/^src\/observe\//, 'headgate: log and metrics'],
  [/^src\/protocols\//, 'headgate: protocols'],
  [/^src\/(?:gateway|policy|core|providers)\//, 'headgate: gateway, policy, core'],
  [/^src\/|^bin\/|^dist\//, 'headgate: the rest'],
  [/^node:(?:_http|http|internal\/http)/, 'node: http'],
  [/^node:(?:net|_tls|tls|internal\/tls)|stream|^node:internal\/js_stream/, 'node: sockets and streams'],
  [/^node:.*timers/, 'node: timers'],
  [/^node:/, 'node: the rest'],
  [/node_modules\//, 'packages'],
]
/** Entries of the engine, which have no place. */
const ENGINE: Readonly<Record<string, string>> = {
  '(garbage collector)': 'garbage collection',
  // Native code: socket polling and reads, HTTP parser, compiler.
  '(program)': 'native: reads, polls, HTTP parser',
}
/** Node's functions that write to, open or close a socket: nearly all of their time is spent in the kernel. */
const KERNEL = /^(?:write|shutdown|connect|open|close|readStart|readStop|bind|listen)/
const WAITING = new Set(['(idle)'])

const areaOf = (name: string, place: string): string => {
  if (place !== '') return AREAS.find(([pattern]) => pattern.test(place))?.[1] ?? 'other'
  if (name.startsWith('RegExp: ')) return 'native: regular expressions'
  return ENGINE[name] ?? (KERNEL.test(name) ? 'kernel: writes' : 'native: the rest')
}

/** The path of a file relative to the project. */
const placeOf = ({ url, lineNumber }: CallFrame): string => {
  if (url === '') return ''
  const path = url.replace(/^file:\/\//, '').replace(/^.*\/(?=node_modules\/)|^\/.*\/(?=(?:src|bin|dist)\/)/, '')
  return lineNumber < 0 ? path : `${path}:${lineNumber + 1}`
}

/**
 * Folds the calls of a window: calls of one function from one caller are merged. Idle samples and those outside the window
 * are left out.
 */
export const fold = (profile: CpuProfile, window: Window): Call => {
  const parents = new Map<number, number>()
  const frames = new Map<number, Frame>()
  for (const { id, callFrame, children = [] } of profile.nodes) {
    const place = placeOf(callFrame)
    const name = callFrame.functionName === '' ? '(anonymous)' : callFrame.functionName
    frames.set(id, { name, place, area: areaOf(name, place) })
    for (const child of children) parents.set(child, id)
  }
  const root: Call = { name: 'all', place: '', area: '', self: 0, total: 0, calls: [] }
  const calls = new Map<number, Call>()
  const callOf = (id: number): Call => {
    const known = calls.get(id)
    if (known) return known
    const frame = frames.get(id)
    const parent = parents.get(id)
    // The profile's root becomes the result's root.
    const created = frame && parent !== undefined ? childOf(callOf(parent), frame) : root
    calls.set(id, created)
    return created
  }
  let now = profile.startTime
  for (const [at, id] of profile.samples.entries()) {
    const spent = profile.timeDeltas[at] ?? 0
    now += spent
    if (now < window.from || now > window.to || WAITING.has(frames.get(id)?.name ?? '')) continue
    callOf(id).self += Math.max(0, spent)
  }
  add(root)
  return root
}

const childOf = (parent: Call, frame: Frame): Call => {
  const known = parent.calls.find(({ name, place }) => name === frame.name && place === frame.place)
  if (known) return known
  const made = { ...frame, self: 0, total: 0, calls: [] }
  parent.calls.push(made)
  return made
}

const add = (call: Call): number => {
  call.total = call.calls.reduce((sum, each) => sum + add(each), call.self)
  return call.total
}

const each = (call: Call, see: (call: Call) => void): void => {
  see(call)
  for (const inner of call.calls) each(inner, see)
}

const shares = (root: Call, key: (call: Call) => string): [string, number][] => {
  const sums = new Map<string, number>()
  each(root, (call) => {
    if (call.self > 0) sums.set(key(call), (sums.get(key(call)) ?? 0) + call.self)
  })
  return [...sums].map(([name, spent]): [string, number] => [name, (100 * spent) / root.total])
}

const rounded = (percent: number): number => Math.round(percent * 100) / 100

/** Percent of the busy time by part of the program, the largest first. */
export const byArea = (root: Call): Readonly<Record<string, number>> =>
  Object.fromEntries(
    shares(root, ({ area }) => (area === '' ? 'native: the rest' : area))
      .sort((a, b) => b[1] - a[1])
      .map(([area, percent]) => [area, rounded(percent)]),
  )

/** The functions with the most time, without their callees. */
export const byFunction = (
  root: Call,
  most: number,
): readonly { readonly name: string; readonly place: string; readonly percent: number }[] =>
  shares(root, ({ name, place }) => `${name}\n${place}`)
    .sort((a, b) => b[1] - a[1])
    .slice(0, most)
    .map(([key, percent]) => {
      const [name = '', place = ''] = key.split('\n')
      return { name, place: place === '' ? 'native' : place, percent: rounded(percent) }
    })
