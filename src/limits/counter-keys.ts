/**
 * Keys of shared counters. Each counter has a hash tag of its own, so that the counters of a cluster are on all of its nodes.
 * They contain IDs and digests only, never the name of a user.
 */
import { createHash } from 'node:crypto'

/** The processes that lease, by the time of their last exchange, and a text that is another one after the store was emptied. */
export const BEAT_KEYS = ['hg:{peers}', 'hg:{peers}:epoch'] as const

/** IDs that the gateway has generated, numbers and the words of this code. Others may be names that a client has sent. */
const PLAIN = /^(?:[a-z]{3,4}_[a-z]{12}|[a-z]{0,8}|[0-9]{1,16})$/

/** The keys of a counter and of its processes. */
export const counterKeys = (counter: string): readonly [counter: string, processes: string] => {
  const [kind = '', ...rest] = counter.split(' ')
  // The owner of a budget is the last part, and may contain spaces.
  const [start = '', name = ''] = kind === 'budget' ? splitAt(rest.join(' '), ' ') : ['', rest.join(' ')]
  const [budget, owner = ''] = splitAt(name, ':')
  const key = `hg:{${[kind, budget, owner, start].map(plain).join(':')}}`
  return [key, `${key}:p`]
}

const splitAt = (text: string, mark: string): readonly [string, string?] => {
  const at = text.indexOf(mark)
  return at < 0 ? [text] : [text.slice(0, at), text.slice(at + 1)]
}

const plain = (part: string): string => (PLAIN.test(part) ? part : digestOf(part))

/** A text that no other input has, of 22 characters. `~`: no ID begins with it. */
export const digestOf = (text: string): string =>
  `~${createHash('sha256').update(text).digest('base64url').slice(0, 21)}`
