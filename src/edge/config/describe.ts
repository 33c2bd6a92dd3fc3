/** Describes the changes of a new configuration in lines for the log. Secrets are never included. */
import type { Config, Route, RouteTarget } from '../../core/config.ts'
import type { Instance } from '../../core/provider.ts'
import { styleNames } from './definition.ts'
import { settingRows } from './rows.ts'

const at = (root: unknown, path: readonly string[]): unknown => {
  let value = root
  for (const step of path)
    value =
      typeof value === 'object' && value !== null ? Object.getOwnPropertyDescriptor(value, step)?.value : undefined
  return value
}

const shown = (value: unknown): string =>
  value === undefined ? 'none' : Array.isArray(value) ? `[${value.join(', ')}]` : String(value)

const counted = (value: unknown): string =>
  Array.isArray(value) ? `${value.length} ${value.length === 1 ? 'key' : 'keys'}` : value === undefined ? 'none' : 'set'

const settingsChanged = (before: Config, after: Config): readonly string[] =>
  settingRows.flatMap(({ path, name, secret }) => {
    const old = at(before.settings, path)
    const now = at(after.settings, path)
    if (JSON.stringify(old) === JSON.stringify(now)) return []
    const format = secret ? counted : shown
    const same = format(old) === format(now)
    return [same ? `${name}: changed` : `${name}: ${format(old)} → ${format(now)}`]
  })

const stylesOf = ({ speaks }: Instance): string => speaks.map(({ protocol }) => styleNames[protocol]).join(', ')

const instanceChanged = (before: Instance, after: Instance): readonly string[] => {
  const lines: string[] = []
  const compare = (what: string, old: string, now: string) => {
    if (old !== now) lines.push(`providers.${after.id}.${what}: ${old || 'none'} → ${now || 'none'}`)
  }
  compare('kind', before.provider.name, after.provider.name)
  compare('baseUrl', before.baseUrl, after.baseUrl)
  compare('models', before.models.join(', '), after.models.join(', '))
  compare('styles', stylesOf(before), stylesOf(after))
  compare('aggregate', before.aggregate ? 'true' : '', after.aggregate ? 'true' : '')
  compare('variables', JSON.stringify(before.variables), JSON.stringify(after.variables))
  const ids = (instance: Instance) => instance.keys.map(({ id }) => id)
  const added = ids(after).filter((id) => !ids(before).includes(id))
  const gone = ids(before).filter((id) => !ids(after).includes(id))
  if (added.length + gone.length > 0)
    lines.push(
      `providers.${after.id}.keys: ${[...added.map((id) => `added ${id}`), ...gone.map((id) => `removed ${id}`)].join(', ')}`,
    )
  const weights = (instance: Instance) => instance.keys.map(({ id, weight }) => `${id}×${weight}`).join(', ')
  if (added.length + gone.length === 0) compare('keys', weights(before), weights(after))
  return lines
}

const targetText = ({ provider, model, weight }: RouteTarget): string =>
  `${provider}${model === undefined ? '' : `/${model}`}${weight === 1 ? '' : `×${weight}`}`

const routeText = ({ strategy, targets, fallback }: Route): string =>
  [
    ...(strategy === undefined ? [] : [strategy]),
    targets.map(targetText).join(', '),
    ...(fallback.length === 0 ? [] : [`then ${fallback.map(targetText).join(', ')}`]),
  ].join(' ')

/** One line per difference; empty if there is none. */
export const describeChange = (before: Config, after: Config): readonly string[] => {
  const lines: string[] = [...settingsChanged(before, after)]
  const old = new Map(before.instances.map((instance) => [instance.id, instance]))
  const now = new Map(after.instances.map((instance) => [instance.id, instance]))
  for (const id of old.keys()) if (!now.has(id)) lines.push(`providers.${id}: removed`)
  for (const [id, instance] of now) {
    const was = old.get(id)
    if (was) lines.push(...instanceChanged(was, instance))
    else lines.push(`providers.${id}: added, ${instance.keys.length} ${instance.keys.length === 1 ? 'key' : 'keys'}`)
  }
  const orderOf = (one: ReadonlyMap<string, Instance>, other: ReadonlyMap<string, Instance>) =>
    [...one.keys()].filter((id) => other.has(id)).join(', ')
  if (orderOf(old, now) !== orderOf(now, old)) lines.push(`providers: now in the order ${[...now.keys()].join(', ')}`)
  for (const name of before.routes.keys()) if (!after.routes.has(name)) lines.push(`routes.${name}: removed`)
  for (const [name, route] of after.routes) {
    const was = before.routes.get(name)
    if (!was) lines.push(`routes.${name}: added, ${routeText(route)}`)
    else if (routeText(was) !== routeText(route)) lines.push(`routes.${name}: ${routeText(was)} → ${routeText(route)}`)
  }
  return lines
}
