/** The events of the gateway as they happen: one stream for all parts of the page, and what is known about its state. */
import { computed, signal } from '@preact/signals'
import { useCallback, useEffect, useRef } from 'preact/hooks'
import { apiPath, offlineSince, readSession, refreshAll, refreshes } from './api.ts'
import { clockOffset, notice, now, removeNotice } from './store.ts'
import { en } from './words/en.ts'

export type LiveTopicName = 'requests' | 'circuits' | 'keys' | 'budgets' | 'log'

/** One event; `data` has the shape of docs/admin-api.md. */
export type LiveMessage = { readonly name: string; readonly data: unknown }

type Follower = { readonly topics: readonly LiveTopicName[]; readonly run: (events: readonly LiveMessage[]) => void }

/** Names of the events of the stream. */
const NAMES = ['request', 'more', 'circuit', 'key', 'budget', 'log'] as const
/** Events are handed over together, at most every 250 ms. */
const BATCH = 250
/** ms between two heartbeats; after two of them the data is stale. */
const BEAT = 10_000
/** ms after which a hidden page closes the stream. */
const HIDDEN = 60_000
/** ms that a page may take to load before the stream is opened without its topics. */
const PAGE_LOADS = 1_000
/** ms between two attempts to reach the gateway. */
const RETRY = { first: 3_000, most: 30_000 }

/** `full`: the gateway has no place for another listener. */
const connection = signal<'connecting' | 'open' | 'broken' | 'full'>('connecting')
const lastSign = signal(Date.now())
/** Whether events wait. */
export const isHeld = signal(false)
/** Requests that ended while events wait. */
export const heldCount = signal(0)
/** When the next attempt is made, in ms since 1970. */
export const retryAt = signal<number | null>(null)
const restartedAt = signal<number | null>(null)

export type LiveWord = 'connecting' | 'live' | 'held' | 'stale' | 'offline' | 'polling' | 'restarted'

/** The state of the data in one word. `age`: ms since the last sign of the gateway. */
export const liveState = computed((): { readonly word: LiveWord; readonly age: number } => {
  const age = Math.max(0, now.value - clockOffset.value - lastSign.value)
  if (offlineSince.value !== null) return { word: 'offline', age }
  if (restartedAt.value !== null && now.value - restartedAt.value < 10_000) return { word: 'restarted', age }
  if (isHeld.value) return { word: 'held', age }
  if (connection.value === 'full') return { word: 'polling', age }
  if (age > 2 * BEAT + 1_000) return { word: 'stale', age }
  return { word: connection.value === 'open' ? 'live' : 'connecting', age }
})

/** Whether the figures may be older than they look. */
export const isOld = computed(() => ['stale', 'offline'].includes(liveState.value.word))

const followers = new Set<Follower>()
let source: EventSource | null = null
let sourceTopics = ''
let batch: LiveMessage[] = []
let handingOver: ReturnType<typeof setTimeout> | undefined
let instance: string | null = null

/** Requests that ended without an event: the stream has a sample while there are many. */
export const moreIn = (events: readonly LiveMessage[]): number =>
  events.reduce(
    // The stream has this shape.
    (sum, { name, data }) => sum + (name === 'more' ? (data as { readonly requests: number }).requests : 0),
    0,
  )

const handOver = (): void => {
  handingOver = undefined
  if (isHeld.value) {
    heldCount.value += batch.filter(({ name }) => name === 'request').length + moreIn(batch)
    batch = []
    return
  }
  const events = batch
  batch = []
  if (events.length > 0) for (const follower of [...followers]) follower.run(events)
}

const received = (name: string, text: string): void => {
  lastSign.value = Date.now()
  connection.value = 'open'
  batch.push({ name, data: JSON.parse(text) })
  if (handingOver === undefined) handingOver = setTimeout(handOver, BATCH)
}

const beat = (text: string): void => {
  const { at, instance: running }: { readonly at: string; readonly instance: string } = JSON.parse(text)
  const time = Date.now()
  lastSign.value = time
  connection.value = 'open'
  removeNotice('polling')
  // Small differences are the way of the message.
  const offset = Date.parse(at) - time
  if (Math.abs(offset - clockOffset.value) > 500) clockOffset.value = offset
  if (instance !== null && instance !== running) {
    restartedAt.value = now.value
    notice({ id: 'restarted', rank: 1, tone: 'plain', text: en.live.restartedNotice, dismissible: true })
    refreshAll()
  }
  instance = running
}

const close = (): void => {
  source?.close()
  source = null
  sourceTopics = ''
}

/** Opens the stream for the topics of all followers. */
const connect = (): void => {
  const topics = [...new Set([...followers].flatMap((follower) => follower.topics))].sort().join(',') || 'circuits'
  if (document.hidden || offlineSince.value !== null || (source && sourceTopics === topics)) return
  const isReplaced = source !== null
  close()
  if (!isReplaced) connection.value = 'connecting'
  sourceTopics = topics
  const opened = new EventSource(apiPath('/live', { topics, sample: true }))
  source = opened
  opened.addEventListener('beat', ({ data }) => beat(data))
  for (const name of NAMES) opened.addEventListener(name, ({ data }) => received(name, data))
  // Events are missing: the lists are read again.
  opened.addEventListener('gap', () => refreshAll())
  opened.addEventListener('error', () => {
    if (source !== opened) return
    connection.value = 'broken'
    if (opened.readyState === EventSource.CLOSED) void refused()
    // Whether the gateway answers at all: without a call, nothing would set `offlineSince`.
    else readSession().catch(() => {})
  })
}

/** The stream ended with an error: offline, without a session, or without a place. */
const refused = async (): Promise<void> => {
  close()
  const before = refreshes.value
  try {
    await readSession()
    // It ended for want of a sign-in, which has been done since.
    if (refreshes.value !== before) return connect()
    connection.value = 'full'
    notice({ id: 'polling', rank: 1, tone: 'plain', text: en.live.pollingNotice, dismissible: true })
    setTimeout(connect, RETRY.most)
  } catch {
    // `offlineSince` is set, and `watchConnection` tries again.
  }
}

let retryTimer: ReturnType<typeof setTimeout> | undefined
let wait = RETRY.first

/** Tries to reach the gateway now. */
export const retryNow = async (): Promise<void> => {
  clearTimeout(retryTimer)
  retryTimer = undefined
  try {
    await readSession()
  } catch {
    // Still offline.
  }
  if (offlineSince.value !== null) retryLater()
}

const retryLater = (): void => {
  if (retryTimer !== undefined) return
  retryAt.value = Date.now() + wait
  retryTimer = setTimeout(() => void retryNow(), wait)
  wait = Math.min(RETRY.most, wait * 2)
}

let connecting: ReturnType<typeof setTimeout> | undefined

/** Connects once for all followers that are added together. */
const connectIn = (ms: number): void => {
  clearTimeout(connecting)
  connecting = setTimeout(connect, ms)
}

/** Keeps the stream open while the page is visible, and finds out when the gateway answers again. */
export const startLive = (): void => {
  offlineSince.subscribe((since) => {
    if (since !== null) {
      close()
      retryLater()
      return
    }
    clearTimeout(retryTimer)
    retryTimer = undefined
    retryAt.value = null
    const wasOffline = wait > RETRY.first
    wait = RETRY.first
    lastSign.value = Date.now()
    if (wasOffline) {
      refreshAll()
      connect()
    }
  })
  let hiding: ReturnType<typeof setTimeout> | undefined
  let wasClosed = false
  document.addEventListener('visibilitychange', () => {
    clearTimeout(hiding)
    if (document.hidden) {
      hiding = setTimeout(() => {
        wasClosed = true
        close()
      }, HIDDEN)
      return
    }
    lastSign.value = Date.now()
    connect()
    if (wasClosed) refreshAll()
    wasClosed = false
  })
  // The page connects with its topics when it has been loaded.
  connectIn(PAGE_LOADS)
  // A stream that is open but silent is opened again.
  setInterval(() => {
    if (source && Date.now() - lastSign.value > 3 * BEAT) {
      close()
      connect()
    }
    if (connection.value === 'full' && !document.hidden) refreshAll()
  }, BEAT)
}

/** Holds events, or hands them over again after reading what was missed. */
export const toggleHold = (): void => {
  isHeld.value = !isHeld.value
  if (!isHeld.value && heldCount.value > 0) refreshAll()
  heldCount.value = 0
}

/** Follows topics from the next connection on; returns how to end it. */
export const follow = (topics: readonly LiveTopicName[], run: Follower['run']): (() => void) => {
  const follower = { topics, run }
  followers.add(follower)
  return () => {
    followers.delete(follower)
  }
}

/** Follows topics as long as the component is shown. */
export const useLive = (topics: readonly LiveTopicName[], run: Follower['run']): void => {
  const names = topics.join(',')
  // The names stand for the topics; `run` is the latest one
  useEffect(() => {
    const end = follow(topics, run)
    connectIn(0)
    return end
  }, [names, run])
}

/** `every` ms, or never while updates are held. */
export const everyUnlessHeld = (ms: number): number => (isHeld.value ? 0 : ms)

/** Runs at once, and then at most once in `pause` ms. */
export const useThrottled = (act: () => void, pause: number): (() => void) => {
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined)
  const last = useRef(0)
  const latest = useRef(act)
  latest.current = act
  useEffect(() => () => clearTimeout(timer.current), [])
  return useCallback(() => {
    if (timer.current !== undefined) return
    const wait = Math.max(0, last.current + pause - Date.now())
    timer.current = setTimeout(() => {
      timer.current = undefined
      last.current = Date.now()
      latest.current()
    }, wait)
  }, [pause])
}

/** Reads again after events of these topics, at most once in `pause` ms. */
export const useReloadOn = (topics: readonly LiveTopicName[], reload: () => void, pause = 2_000): void =>
  useLive(topics, useThrottled(reload, pause))
