/**
 * Maps `guardrails` with services that have a contract here (docs.litellm.ai/docs/proxy/guardrails). Others are left out.
 */
import { configText, type LiteralSecrets, type RowCollector } from './imported.ts'
import { isMembers, listOf, membersOf, type SourceMembers, type SourcePath } from './source.ts'

type Rules = Map<string, SourceMembers>

/** One entry while it is read. `to`: its rule, as rows name it. */
type Entry = {
  readonly name: string
  readonly params: SourceMembers
  readonly path: SourcePath
  readonly to: string
  readonly rows: RowCollector
  readonly secrets: LiteralSecrets
}

const PHASES: Readonly<Record<string, string>> = { pre_call: 'request', during_call: 'request', post_call: 'answer' }

/** What a rule reads; null: nothing that is read here. */
const phasesOf = ({ params: { mode }, path, to, rows }: Entry): readonly string[] | null => {
  const modes = Array.isArray(mode) ? mode : [mode ?? 'pre_call']
  const on = [...new Set(modes.flatMap((one) => PHASES[String(one)] ?? []))]
  if (on.length === 0 || modes.some((one) => PHASES[String(one)] === undefined)) {
    rows.leaveOut([...path, 'mode'], 'requests and answers are read, and no logs or MCP calls')
    return on.length === 0 ? null : on
  }
  const where = `${to}.on`
  if (modes.includes('during_call')) rows.changed([...path, 'mode'], where, 'before the call, not beside it')
  else rows.taken([...path, 'mode'], where)
  return on
}

/** Members of a service by the members of LiteLLM that are copied. */
const copied = ({ params, path, to, rows }: Entry, names: Readonly<Record<string, string>>): SourceMembers => {
  const found: { [name: string]: unknown } = {}
  for (const [member, setting] of Object.entries(names)) {
    const value = configText(params[member])
    if (value === undefined) continue
    found[setting] = value
    rows.taken([...path, member], `${to}.service.${setting}`)
  }
  return found
}

const headerOf = ({ name, params, path, to, rows, secrets }: Entry, header: string, prefix = ''): SourceMembers => {
  const key = secrets.reference(params.api_key, `guard_${name}`)
  if (!key) return {}
  const where = `${to}.service.headers.${header}`
  if (key.literal) rows.changed([...path, 'api_key'], where, 'a literal value: it is now in the environment')
  else rows.taken([...path, 'api_key'], where)
  return { headers: { [header]: `${prefix}${key.text}` } }
}

const generic = (entry: Entry): SourceMembers | null => {
  const { params, path, to, rows } = entry
  const { additional_provider_specific_params: parameters, unreachable_fallback: fallback } = params
  const address = copied(entry, { api_base: 'url' })
  if (address.url === undefined) return null
  if (isMembers(parameters)) rows.taken([...path, 'additional_provider_specific_params'], `${to}.service.parameters`)
  const opens = fallback === 'fail_open' || params.fail_on_error === false
  if (opens)
    for (const member of ['unreachable_fallback', 'fail_on_error'])
      if (Object.hasOwn(params, member))
        rows.changed([...path, member], `${to}.service.onError: allow`, 'after all failures of the service')
  return {
    action: 'mask',
    service: {
      kind: 'litellm',
      ...address,
      ...headerOf(entry, 'x-api-key'),
      ...(isMembers(parameters) && { parameters }),
      ...(opens && { onError: 'allow' }),
    },
  }
}

const bedrock = (entry: Entry): SourceMembers | null => {
  const names = { guardrailIdentifier: 'guardrail', guardrailVersion: 'version', aws_region_name: 'region' }
  const { guardrailIdentifier: id, aws_region_name: region } = entry.params
  if (configText(id) === undefined || configText(region) === undefined) return null
  return { action: 'mask', service: { kind: 'bedrock', ...copied(entry, names) } }
}

const moderation = (entry: Entry): SourceMembers => ({
  action: 'block',
  service: {
    kind: 'moderation',
    ...copied(entry, { api_base: 'url', model: 'model' }),
    headers: { authorization: `Bearer \${OPENAI_API_KEY}` },
    ...headerOf(entry, 'authorization', 'Bearer '),
  },
})

/** One rule for the entities that are masked, and one for those that block. */
const presidio = (entry: Entry): readonly SourceMembers[] => {
  const { params, path, to, rows } = entry
  const place = {
    url: `\${PRESIDIO_ANALYZER_API_BASE}`,
    ...copied(entry, { presidio_analyzer_api_base: 'url', presidio_language: 'language' }),
  }
  const entities = membersOf(params.pii_entities_config)
  if (entities.length === 0) return [{ action: 'mask', service: { kind: 'presidio', ...place } }]
  rows.taken([...path, 'pii_entities_config'], `${to}.service.entities`)
  return (['mask', 'block'] as const).flatMap((action) => {
    const own = entities.filter(([, value]) => (String(value).toUpperCase() === 'BLOCK') === (action === 'block'))
    const names = own.map(([name]) => name)
    return names.length === 0 ? [] : [{ action, service: { kind: 'presidio', ...place, entities: names } }]
  })
}

const KINDS: Readonly<Record<string, (entry: Entry) => SourceMembers | readonly SourceMembers[] | null>> = {
  generic_guardrail_api: generic,
  bedrock,
  openai_moderation: moderation,
  presidio,
}

/** The rules of `guards`; empty: there are none. */
export const readGuards = (
  section: unknown,
  { rows, secrets }: { readonly rows: RowCollector; readonly secrets: LiteralSecrets },
): SourceMembers => {
  const rules: Rules = new Map()
  for (const [index, item] of listOf(section).entries()) {
    const params = isMembers(item) ? item.litellm_params : undefined
    const name = isMembers(item) ? configText(item.guardrail_name) : undefined
    if (!isMembers(params) || name === undefined || rules.has(name)) continue
    const read = KINDS[String(params.guardrail)]
    const path = ['guardrails', index, 'litellm_params']
    const entry: Entry = { name, params, path, to: `guards.${name}`, rows, secrets }
    if (!read) continue
    const on = phasesOf(entry)
    if (on === null) continue
    const made = [read(entry) ?? []].flat()
    const isDefault = params.default_on === true
    if (made.length > 0) rows.taken(['guardrails', index, 'guardrail_name'], entry.to)
    if (made.length > 0) rows.taken([...path, 'guardrail'], `${entry.to}.service.kind`)
    if (made.length > 0 && isDefault) rows.taken([...path, 'default_on'], 'it applies to all requests')
    // Without `default_on` requests name it; here they add it by a header.
    for (const [at, rule] of made.entries())
      rules.set(at === 0 ? name : `${name}-${rule.action}`, { on, ...rule, ...(!isDefault && { onlyTeams: [] }) })
  }
  return Object.fromEntries(rules)
}
