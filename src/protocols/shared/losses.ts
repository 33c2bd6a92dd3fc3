import type { Extra, MemberPaths, Setting } from '../../core/chat.ts'
import { isObject, type Json } from '../../core/json.ts'
import type { Loss } from '../../core/protocol.ts'

/** What could not be carried, gathered while a request is written. */
export type Losses = {
  /** Given up, or changed, without changing what is asked. */
  lose(at: string): void
  /** A member of something the client wrote, by its path there; `below`: where inside the member. */
  loseMember(of: { readonly at: string; readonly paths?: MemberPaths }, member: string, below?: string): void
  /** Without it the request would mean something else. */
  unfit(at: string): void
  /** A member nobody here has a word for. */
  loseExtra(extra: Extra): void
  all(): readonly Loss[]
}

/** What a row of an encoder's table of settings needs of the request being written. */
type Losing = { readonly losses: Losses }

/** A setting this format has no word for. */
export const lost = ({ at }: { readonly at: string }, { losses }: Losing): void => losses.lose(at)

/** Decided elsewhere in the encoder, where it is also said if it is lost. */
export const encodedElsewhere = (): void => {}

/** Lost only if it asks for something: a number that is not zero, a true, an object with members. */
export const lostUnlessNeutral = ({ value, at }: Setting<Json>, { losses }: Losing): void => {
  const idle = value === 0 || value === false || (isObject(value) && Object.keys(value).length === 0)
  if (!idle) losses.lose(at)
}

/** Several choices, in a format whose answers have one. */
export const singleChoiceOnly = ({ value, at }: Setting<number>, { losses }: Losing): void => {
  if (value !== 1) losses.unfit(at)
}

/** A tier of service, where there is only the usual one. */
export const defaultTierOnly = ({ value, at }: Setting<string>, { losses }: Losing): void => {
  if (value !== 'auto' && value !== 'default') losses.lose(at)
}

/** Members that are a message by themselves, with no role beside them. */
const ALONE: ReadonlySet<string> = new Set(['instructions', 'system'])

/** Where a message's role is said: what is known for a system message by its own name is named itself. */
export const rolePath = ({ at }: { readonly at: string }): string => (ALONE.has(at) ? at : `${at}.role`)

/** Members nobody here has a word for, all of them. */
export const loseExtras = (extras: readonly Extra[] | undefined, losses: Losses): void => {
  for (const extra of extras ?? []) losses.loseExtra(extra)
}

export const newLosses = (): Losses => {
  const found = new Map<string, boolean>()
  const note = (at: string, unfit: boolean) => found.set(at, unfit || found.get(at) === true)
  const lose = (at: string) => {
    // The client did not write what has no path.
    if (at !== '') note(at, false)
  }
  return {
    lose,
    loseMember: ({ at, paths }, member, below = '') => {
      const path = paths?.[member]
      if (path !== null) lose(`${at}.${path ?? member}${below}`)
    },
    unfit: (at) => void note(at, true),
    loseExtra: ({ at, essential }) => void note(at, essential),
    all: () => [...found].map(([at, unfit]) => ({ at, unfit })),
  }
}
