/** Changes of `/changes` as text. Pure. */
import type { ListedChange } from './provider-row.ts'
import { changeWords as words } from './words/providers.ts'

const wordOf = (table: { readonly [name: string]: string }, name: string): string =>
  table[name] ?? name.slice(name.indexOf('.') + 1).replaceAll('_', ' ')

/** What was changed, and how: `groq: circuit opened`, `Key ci created by admin`. */
export const changeTitle = (change: ListedChange): string => {
  const { kind, action, object, providers, credential, model, actor } = change
  const [record = '', verb = ''] = action.split('.')
  if (kind === 'start') return words.actions['gateway.start']
  if (kind === 'config') return wordOf(words.actions, action)
  if (kind === 'account') {
    const name = object?.name ?? object?.id ?? ''
    const what = wordOf(words.objects, record)
    return [what, name, wordOf(words.account, verb), ...(actor ? [words.by(actor.name)] : [])].join(' ')
  }
  const names = providers.length > 0 ? providers.join(', ') : (object?.id ?? '')
  const place = [names, ...(credential === null ? [] : [words.key(credential)]), ...(model === null ? [] : [model])]
  const what = actor !== null && action === 'circuit.open' ? words.actions.rest : wordOf(words.actions, action)
  return `${place.join(' · ')}: ${what}${actor ? ` ${words.by(actor.name)}` : ''}`
}

/** Why, or what in it: causes, settings, members; empty: nothing more is known. */
export const changeDetail = ({ kind, details, node }: ListedChange): string => {
  const shown = kind === 'circuit' || kind === 'credential' ? details.filter((one) => !one.includes(' → ')) : details
  const texts = shown.map((one) => (kind === 'circuit' || kind === 'credential' ? one.replaceAll('_', ' ') : one))
  return [...texts, ...(node === null ? [] : [words.node(node)])].join(', ')
}

/** Tone and shape of a change in a list and on a time axis. */
export const changeShape = ({ action }: Pick<ListedChange, 'action'>): readonly [shape: string, tone: string] => {
  if (action === 'circuit.open') return ['◆', 'bad']
  if (action === 'circuit.half_open' || action === 'circuit.probe') return ['◐', 'probe']
  if (action.startsWith('circuit.')) return ['●', 'ok']
  if (action === 'config.refused') return ['✗', 'bad']
  if (action.startsWith('credential.')) return action === 'credential.active' ? ['●', 'ok'] : ['◌', 'warn']
  return ['○', 'dim']
}

/** A probe of an open circuit, or its failure: an outage has many, which say nothing new. */
export const isProbe = ({ kind, action, details }: ListedChange): boolean =>
  kind === 'circuit' && (action === 'circuit.half_open' || details.includes('half_open → open'))

/** Changes that a chart marks: configuration and starts. Outages are bands. */
export const isMarked = ({ kind }: ListedChange): boolean => kind === 'config' || kind === 'start'
