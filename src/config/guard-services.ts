/** The member `service` of a guard: checked, and converted to what is called. */
import { z } from 'zod'
import type { GuardService } from '../core/guard.ts'
import { HEADER_NAME } from '../core/headers.ts'
import type { JsonObject } from '../core/json.ts'
import { Secret } from '../core/secret.ts'
import { fingerprint } from '../records/entities/key-digest.ts'
import type { Path } from './account-report.ts'
import { facts } from './facts-schema.ts'
import { type Problem, quote } from './problem.ts'
import { HEADER_VALUE, MESSAGE_HEADERS } from './provider-headers.ts'

/** What each kind has beside the members of all. */
const MEMBERS = {
  headgate: { required: ['url'], optional: ['secret'] },
  litellm: { required: ['url'], optional: ['parameters'] },
  moderation: { required: [], optional: ['url', 'model', 'thresholds'] },
  presidio: { required: ['url'], optional: ['language', 'entities', 'scoreThreshold'] },
  bedrock: { required: ['guardrail', 'region'], optional: ['url', 'version'] },
} as const satisfies Record<
  GuardService['kind'],
  { readonly required: readonly string[]; readonly optional: readonly string[] }
>

/** Of all kinds. */
const COMMON = ['kind', 'headers', 'timeout', 'onError', 'answers', 'facts']

const text = z.string().min(1).max(2_048)
const score = z.number().min(0).max(1)

export const serviceSchema = z
  .strictObject({
    kind: z
      .enum(['headgate', 'litellm', 'moderation', 'presidio', 'bedrock'])
      .describe('contract of the service: the own one, or that of LiteLLM, OpenAI, Presidio or Amazon Bedrock'),
    url: text.optional().describe('address; the path of the contract is added to it, except for headgate'),
    headers: z.record(text, z.string()).default({}).describe('headers of each request, such as a credential'),
    timeout: z.int().min(10).max(60_000).default(2_000).describe('for the check of one request (ms)'),
    onError: z
      .enum(['block', 'allow'])
      .default('block')
      .describe('a request that cannot be checked: `block` refuses it (503), `allow` lets it pass'),
    answers: z
      .enum(['hold', 'watch'])
      .optional()
      .describe(
        '`hold`: an answer is held back until it is checked; `watch`: it is checked each 2,000 characters while it is sent. Default: hold to block and mask, watch to flag and log',
      ),
    facts: z.strictObject(facts).optional().describe('where and how it keeps texts, for the data policy'),
    secret: text.optional().describe('signs requests, as specified by Standard Webhooks; with headgate'),
    parameters: z
      .record(z.string(), z.json())
      .optional()
      .describe('additional_provider_specific_params of each request; with litellm'),
    model: text.optional().describe('model; with moderation'),
    thresholds: z
      .record(text, score)
      .optional()
      .describe('scores from which categories are blocked, in place of the decision of the service; with moderation'),
    language: text.optional().describe('language of the texts, such as en; with presidio'),
    entities: z.array(text).min(1).optional().describe('entities to find; with presidio'),
    scoreThreshold: score.optional().describe('least score of what is found; with presidio'),
    guardrail: text.optional().describe('ID or ARN of the guardrail; with bedrock'),
    version: text.optional().describe('its version; with bedrock'),
    region: z
      .string()
      .regex(/^[a-z0-9-]{1,30}$/)
      .optional()
      .describe('region of AWS; with bedrock')
      .meta({ allowed: 'a region such as eu-west-1' }),
  })
  .superRefine((service, context) => {
    const { required, optional } = MEMBERS[service.kind]
    const own: readonly string[] = [...required, ...optional]
    for (const [member, value] of Object.entries(service))
      if (value !== undefined && !COMMON.includes(member) && !own.includes(member))
        context.addIssue({ code: 'custom', path: [], message: `no ${member}, which ${service.kind} does not have` })
    for (const member of required)
      if (service[member] === undefined)
        context.addIssue({ code: 'custom', path: [], message: `${service.kind} with ${member}` })
  })
  .describe('who finds texts, in place of find, patterns and words')

type ServiceEntry = z.output<typeof serviceSchema>

const OPENAI = 'https://api.openai.com/v1'
const MODERATION_MODEL = 'omni-moderation-latest'

export const guardServiceOf = (entry: ServiceEntry): GuardService => {
  const { headers, timeout, onError, region = '', secret } = entry
  const url = entry.url ?? (entry.kind === 'bedrock' ? `https://bedrock-runtime.${region}.amazonaws.com` : OPENAI)
  const common = {
    url: new Secret(url),
    fingerprint: fingerprint([url, secret, ...Object.entries(headers).flat()]),
    headers: Object.fromEntries(
      Object.entries(headers).map(([name, value]) => [name.toLowerCase(), new Secret(value)]),
    ),
    timeout,
    onError,
    answers: entry.answers ?? null,
    facts: entry.facts ?? null,
  }
  switch (entry.kind) {
    case 'headgate':
      return { ...common, kind: 'headgate', secret: secret === undefined ? null : new Secret(secret) }
    case 'litellm':
      // The schema admits JSON only.
      return { ...common, kind: 'litellm', parameters: (entry.parameters ?? {}) as JsonObject }
    case 'moderation': {
      const { model = MODERATION_MODEL, thresholds = {} } = entry
      return { ...common, kind: 'moderation', model, thresholds }
    }
    case 'presidio': {
      const { language = 'en', entities = null, scoreThreshold = null } = entry
      return { ...common, kind: 'presidio', language, entities, scoreThreshold }
    }
    case 'bedrock': {
      const { guardrail = '', version = 'DRAFT' } = entry
      return { ...common, kind: 'bedrock', guardrail, version, region }
    }
    default:
      throw new Error(`unknown service ${JSON.stringify(entry.kind satisfies never)}`)
  }
}

type AskingEntry = { readonly service?: ServiceEntry | undefined }
type ServicePlaceOf = (path: Path) => { readonly name: string; readonly value: string }

/** Problems of addresses and headers, which may be secrets: their values are not shown. */
export const serviceProblems = (
  guards: ReadonlyMap<string, AskingEntry>,
  placeOf: ServicePlaceOf,
): readonly Problem[] =>
  [...guards].flatMap(([name, { service }]): readonly Problem[] => {
    if (!service) return []
    const path = ['guards', name, 'service']
    const problems: Problem[] = []
    const refuse = (at: Path, found: string, allowed: string) =>
      problems.push({ where: placeOf(at).value, what: at.join('.'), found, allowed })
    const { url, kind } = service
    const parsed = url !== undefined && URL.canParse(url) ? new URL(url) : null
    const isAddress = parsed !== null && /^https?:\/\/[^/\s]/.test(url ?? '')
    if (url !== undefined && !(isAddress && parsed.username === '' && parsed.password === '' && parsed.hash === ''))
      refuse([...path, 'url'], NOT_SHOWN, 'an http:// or https:// address; credentials belong to headers')
    if (isAddress && parsed.search !== '' && kind !== 'headgate')
      refuse([...path, 'url'], 'an address with a query', 'an address without one; credentials belong to headers')
    for (const [header, value] of Object.entries(service.headers)) {
      const at = [...path, 'headers', header]
      const lower = header.toLowerCase()
      if (!HEADER_NAME.test(lower)) refuse(at, quote(header), 'the name of a header')
      else if (MESSAGE_HEADERS.includes(lower) || /^(?:x-amz-|webhook-|user-agent$)/.test(lower))
        refuse(at, `the header ${quote(lower)}, which the gateway sets itself`, 'other headers')
      else if (!HEADER_VALUE.test(value)) refuse(at, NOT_SHOWN, 'printable ASCII characters')
    }
    return problems
  })

const NOT_SHOWN = 'a value that is not shown, because it may be a secret'
