/** Cells of the list of client keys, which its cards and its sheet show too. */
import { hasRole } from '../api.ts'
import { age, compact, count, money, percent } from '../format.ts'
import { type BudgetRecord, budgetsOf, isScoped, type KeyRecord, keyState, type TeamRecord } from '../key-records.ts'
import { now } from '../store.ts'
import { en } from '../words/en.ts'
import { keysWords } from '../words/keys.ts'
import { SpentBar } from './spent-bar.tsx'
import { Time } from './states.tsx'

/** What may be done with a key. */
export type KeyAction = 'edit' | 'rotate' | 'retire' | 'block' | 'unblock' | 'revoke'

/** What the whole page has read. */
export type KeysData = {
  readonly keys: readonly KeyRecord[]
  readonly teams: readonly TeamRecord[]
  readonly budgets: readonly BudgetRecord[]
  /** Of teams and keys that budgets name, by ID. */
  readonly names: { readonly [id: string]: string }
  /** `headgate.yaml:31` of a key of the file. */
  readonly places: ReadonlyMap<string, string>
  readonly reload: () => void
}

/** What the sheet, the menu and the dialogs do with a key. */
export const actionsOf = (key: KeyRecord): readonly KeyAction[] => {
  if (key.managed === 'file' || key.status === 'revoked') return []
  const isAdmin = hasRole('admin', { team: key.team })
  const { overlap } = keyState(key, now.value)
  const toggle = key.status === 'blocked' ? ('unblock' as const) : ('block' as const)
  return [
    ...(isAdmin ? (['edit', 'rotate'] as const) : []),
    ...(isAdmin && overlap !== null ? (['retire'] as const) : []),
    ...(hasRole('operator', { team: key.team }) ? [toggle] : []),
    ...(isAdmin ? (['revoke'] as const) : []),
  ]
}

/** The name of a team; its ID where it is not known. */
export const teamName = ({ teams }: KeysData, id: string): string => teams.find((team) => team.id === id)?.name ?? id

/** `chat-default +2`, or `all`. */
export const accessText = ({ access }: KeyRecord): string => {
  const lists = [access.models, access.routes, access.providers].filter((list) => list !== null)
  if (lists.length === 0) return keysWords.all
  const [first, ...rest] = lists.flat()
  if (first === undefined) return keysWords.nothing
  return rest.length === 0 ? first : `${first} ${keysWords.more(rest.length)}`
}

/** `60/min · 1M tok/min`, or null. */
export const limitsText = ({ limits }: Pick<KeyRecord, 'limits'>): string | null => {
  const { requestsPerMinute: rpm, tokensPerMinute: tpm, concurrent } = limits
  const parts = [
    ...(rpm === null ? [] : [keysWords.perMinute(compact(rpm))]),
    ...(tpm === null ? [] : [keysWords.tokens(compact(tpm))]),
    ...(concurrent === null ? [] : [keysWords.atOnce(count(concurrent))]),
  ]
  return parts.length === 0 ? null : parts.join(' · ')
}

const LOOKS = {
  active: ['●', 'ok'],
  unused: ['○', 'dim'],
  blocked: ['◌', 'warn'],
  expired: ['✗', 'bad'],
  revoked: ['✗', 'bad'],
} as const

/** The state of a key: shape, word and colour; beside it the countdown of a rotation, or where the key is defined. */
export const StateCell = ({ keyRecord: key, data }: { readonly keyRecord: KeyRecord; readonly data: KeysData }) => {
  const { word, unused, overlap } = keyState(key, now.value)
  const [shape, tone] = LOOKS[word]
  const text = word === 'unused' ? keysWords.states.unused(age(unused)) : keysWords.states[word]
  return (
    <span class="keys-state">
      <span class={tone}>
        <span aria-hidden="true">{shape}</span> {text}
      </span>
      {overlap !== null && <span class="badge probe">{keysWords.states.overlap(age(overlap))}</span>}
      {key.managed === 'file' && (
        <span class="dim small">{keysWords.states.inFile(data.places.get(key.id) ?? keysWords.managed.file)}</span>
      )}
    </span>
  )
}

/** The API states the hour, so that minutes would be wrong. */
const HOUR = 3_600_000

export const Used = ({ keyRecord: { last_used_at: at } }: { readonly keyRecord: KeyRecord }) => {
  if (at === null) return <span class="dim">{keysWords.never}</span>
  const ms = now.value - Date.parse(at)
  return (
    <Time at={at}>{ms < HOUR ? keysWords.thisHour : ms < 2 * HOUR ? keysWords.lastHour : en.time.ago(age(ms))}</Time>
  )
}

/** The nearest budget of a key: its own, then that of its team. Those of some models say little about it: every key may have them. */
export const BudgetCell = ({ keyRecord, data }: { readonly keyRecord: KeyRecord; readonly data: KeysData }) => {
  const all = budgetsOf(keyRecord, data.budgets)
  const [first, ...others] = all.filter(({ budget }) => !isScoped(budget))
  if (!first)
    return all.length === 0 ? (
      <span class="dim">–</span>
    ) : (
      <span class="dim" title={all.map(({ budget }) => budget.name).join(', ')}>
        {keysWords.onlyScoped(all.length)}
      </span>
    )
  const { budget, owner, spent, share } = first
  const text = keysWords.of(money(spent), money(budget.amount), keysWords.periods[budget.period])
  return (
    <span class="keys-budget">
      <SpentBar share={share} label={keysWords.spentShare(budget.name, percent(share))} alerts={budget.alerts} />
      <span class="num" title={budget.name}>
        {owner !== 'key' && <span class="dim">{keysWords.owners[owner]} </span>}
        {text} {others.length > 0 && <span class="dim">{keysWords.more(others.length)}</span>}
      </span>
    </span>
  )
}
