import type { Extra, MemberPaths, Setting } from '../../core/chat.ts'
import { isObject, type Json } from '../../core/json.ts'
import type { Loss } from '../../core/protocol.ts'

/** Collects the members that a target format cannot carry while a request is encoded. */
export type Losses = {
  /** Dropped or changed; the request keeps its meaning. */
  lose(at: string): void
  /** A dropped member of a message, part or tool; `below` is the path inside the member. */
  loseMember(of: { readonly at: string; readonly paths?: MemberPaths }, member: string, below?: string): void
  /** Not supported and essential: the request does not fit this target. `because`: as of `Loss`. */
  unfit(at: string, because?: string): void
  /** An unknown member: unfit if essential, otherwise dropped. */
  loseExtra(extra: Extra): void
  /** All losses, one per path. */
  all(): readonly Loss[]
}

/** The cause of a loss at models that answer with a schema, or with tools. */
export const SCHEMA_OR_TOOLS = 'takes a schema or tools, not both in one request'

/** The members of an encoder's draft that the functions below use. */
type Losing = { readonly losses: Losses }

/** Reports a setting that the format does not have. */
export const lost = ({ at }: { readonly at: string }, { losses }: Losing): void => losses.lose(at)

/** For settings that the encoder handles, and reports, elsewhere. */
export const encodedElsewhere = (): void => {}

/** Reports a setting unless its value is neutral: zero, false or an empty object. */
export const lostUnlessNeutral = ({ value, at }: Setting<Json>, { losses }: Losing): void => {
  const isNeutral = value === 0 || value === false || (isObject(value) && Object.keys(value).length === 0)
  if (!isNeutral) losses.lose(at)
}

/** Reports several choices as unfit, for formats whose answers have only one choice. */
export const singleChoiceOnly = ({ value, at }: Setting<number>, { losses }: Losing): void => {
  if (value !== 1) losses.unfit(at)
}

/** Reports a service tier other than the default. */
export const defaultTierOnly = ({ value, at }: Setting<string>, { losses }: Losing): void => {
  if (value !== 'auto' && value !== 'default') losses.lose(at)
}

/** Members that hold a system message without a role. */
const ROLELESS_MEMBERS: ReadonlySet<string> = new Set(['instructions', 'system'])

/** The path of a message's role, or of the member itself if it has no role. */
export const rolePath = ({ at }: { readonly at: string }): string => (ROLELESS_MEMBERS.has(at) ? at : `${at}.role`)

/** Reports unknown members, except those that the encoder carries. */
export const loseExtras = (
  extras: readonly Extra[] | undefined,
  losses: Losses,
  carried: readonly string[] = [],
): void => {
  for (const extra of extras ?? []) if (!carried.includes(extra.name)) losses.loseExtra(extra)
}

/** An empty collection of losses. */
export const newLosses = (): Losses => {
  const found = new Map<string, boolean>()
  const causes = new Map<string, string>()
  const note = (at: string, unfit: boolean) => found.set(at, unfit || found.get(at) === true)
  const lose = (at: string) => {
    // Settings derived by the gateway have no path.
    if (at !== '') note(at, false)
  }
  return {
    lose,
    loseMember: ({ at, paths }, member, below = '') => {
      const path = paths?.[member]
      if (path !== null) lose(`${at}.${path ?? member}${below}`)
    },
    unfit: (at, because) => {
      note(at, true)
      if (because !== undefined) causes.set(at, because)
    },
    loseExtra: ({ at, essential }) => void note(at, essential),
    all: () =>
      [...found].map(([path, essential]) => {
        const because = causes.get(path)
        return because === undefined ? { path, essential } : { path, essential, because }
      }),
  }
}
