/** What a target would do with a request of a shape, by what is known here: nothing is sent. */
import type { ChatRequest, MediaSource, Part, ProtocolName } from '../../core/chat.ts'
import type { Catalogue, ModelFacts } from '../../core/config.ts'
import type { ClientProtocol } from '../../core/protocol.ts'
import type { ProviderKey } from '../../core/provider.ts'
import { type Candidate, keyId, modelId } from '../../core/target.ts'
import type { World } from '../../core/world.ts'
import type { DrillFinding } from '../../policy/drill/report.ts'
import { dryFinding, READY } from '../../policy/drill/report.ts'
import type { Shape } from '../../policy/drill/shape.ts'
import { smallestRequest, unsentParts } from '../../policy/drill/smallest.ts'
import { nameIn } from '../../policy/routing/models.ts'
import { clientProtocolByStyle, sharedProtocols } from '../../protocols/index.ts'
import type { UpstreamHealth } from '../health/upstream-health.ts'
import { prepareRequest } from '../upstream/outbound-request.ts'
import { canonicalRequest } from './class-plan.ts'

/** What is known of targets. `lists`: the providers' own model lists as last fetched, by instance ID. */
export type DryFacts = {
  readonly health: Pick<UpstreamHealth, 'cooldowns' | 'limits' | 'refusals' | 'retirements'>
  readonly catalogue: Catalogue
  readonly lists: ReadonlyMap<string, readonly string[]>
  readonly world: Pick<World, 'date'>
}

/** Why a key or a model answers nothing until an operator does something. Other cooldowns pass. */
const DEAD: ReadonlySet<string> = new Set(['disabled', 'quota_exhausted', 'suspended'])

/** The keys of a target that work. */
export const workingKeys = ({ health }: Pick<DryFacts, 'health'>, { instance }: Candidate): readonly ProviderKey[] =>
  instance.keys.filter((key) => !DEAD.has(health.cooldowns.of(keyId(instance, key))?.why ?? ''))

/** What the target would do with all requests, whatever their shape. */
export const targetFinding = (facts: DryFacts, candidate: Candidate): DrillFinding => {
  const { health, catalogue, lists, world } = facts
  const { instance, model } = candidate
  if (workingKeys(facts, candidate).length === 0) return dryFinding('refused', 'key')
  const end = health.retirements.of(catalogue, candidate)
  if (end && end.at <= world.date()) return dryFinding('refused', 'retired')
  if (health.cooldowns.of(modelId(candidate))?.why === 'model_missing') return dryFinding('refused', 'model')
  const listed = lists.get(instance.id) ?? []
  if (listed.length === 0 || nameIn(listed, model) !== undefined) return READY
  // A list may be shorter than what the provider takes.
  const isKnown = catalogue.lists?.(instance.provider.catalogue ?? instance.provider.name, model) === true
  return dryFinding(isKnown ? 'doubt' : 'refused', 'model')
}

/** What the target would do with requests of a shape. */
export const shapeFinding = (facts: DryFacts, shape: Shape, candidate: Candidate): DrillFinding => {
  const { health, catalogue } = facts
  const protocol = clientProtocolByStyle.get(shape.style)
  // Embeddings have no chat format.
  if (!protocol) return dryFinding('doubt', 'format')
  const known = health.limits.factsOf(catalogue, candidate)
  const request = wholeRequest(shape, candidate.model, protocol)
  const lacking = new Set(health.refusals.protocolsOf(candidate.instance))
  const prepared = prepareRequest(canonicalRequest(protocol, request), candidate, known, lacking)
  if (!prepared) return dryFinding('refused', 'format')
  const [unfit] = prepared.unfit
  if (unfit !== undefined) return dryFinding('refused', partOf(unfit, request))
  const window = windowFinding(shape, known)
  if (window) return window
  const [doubt] = prepared.doubts
  if (doubt) return dryFinding('doubt', partOf(doubt.at, request))
  const hasHosted = request.tools.some(({ kind }) => kind === 'foreign')
  const unsent = unsentParts(shape).find((part) => !(hasHosted && part.startsWith('hosted.')))
  if (unsent !== undefined) return dryFinding('doubt', unsent)
  const [lost] = [...prepared.droppable, ...prepared.dropped].filter((path) => path !== 'store')
  return lost === undefined ? READY : dryFinding('lossy', partOf(lost, request))
}

/** Inputs of a step are longer than half of it. The catalogue may be out of date, and the estimate is one. */
const windowFinding = ({ input }: Shape, facts: ModelFacts | undefined): DrillFinding | null => {
  const window = facts?.contextWindow
  if (window === undefined || input <= window) return null
  const isSure = input / (facts?.stated?.contextWindow === undefined ? SURE.catalogue : SURE.stated) >= window
  return dryFinding(isSure ? 'refused' : 'doubt', 'window')
}
const SURE = { stated: 2, catalogue: 4 }

/** The smallest request of a shape, with the tools that providers run and media by URL or ID, which live checks leave out. */
const wholeRequest = (shape: Shape, model: string, client: ClientProtocol): ChatRequest => {
  // Formats of clients alone have no such tools.
  const format = Object.values(sharedProtocols).find(({ name }) => name === client.name)
  const request = smallestRequest(shape, model, false)
  const hosted = shape.features.flatMap((feature) => {
    const type = feature.startsWith('hosted.') ? feature.slice('hosted.'.length) : undefined
    if (type === undefined || !format) return []
    return {
      kind: 'foreign' as const,
      at: 'hosted_tools',
      protocol: format.name,
      raw: { type },
      optional: true as const,
    }
  })
  const { tools, messages } = request
  const linked = linkedMedia(shape, format?.name)
  const [first, ...others] = messages
  return {
    ...request,
    tools: [...tools, ...hosted],
    messages: first ? [{ ...first, content: [...first.content, ...linked] }, ...others] : messages,
  }
}

const linkedMedia = ({ features }: Shape, protocol: ProtocolName | undefined): readonly Part[] => {
  const url: MediaSource = { kind: 'url', url: 'https://example.com/drill' }
  const id: MediaSource | null = protocol === undefined ? null : { kind: 'id', id: 'drill', protocol }
  return (['image', 'file'] as const).flatMap((type) =>
    [url, id].flatMap((source, index) =>
      source && features.includes(`${type}.${source.kind}`) ? [{ type, at: `linked_${type}[${index}]`, source }] : [],
    ),
  )
}

const MEDIA: { readonly [type in Part['type']]?: string } = { image: 'pictures', file: 'files', audio: 'sound' }

/** What a path of the smallest request is, as `PART_TEXTS` names it; otherwise the path without its places in lists. */
const partOf = (path: string, { messages, tools, settings }: ChatRequest): string => {
  if (path === 'hosted_tools') return path
  const tool = tools.find(({ at }) => path.startsWith(at))
  if (tool) return tool.kind === 'custom' ? 'custom_tools' : 'tools'
  if (settings.format && path.startsWith(settings.format.at)) return 'schema'
  for (const message of messages) {
    const part = message.content.find(({ at }) => path.startsWith(at))
    const media = part && MEDIA[part.type]
    if (media !== undefined) return media
    if (part?.type === 'tool-call' || (message.role === 'tool' && path.startsWith(message.at))) return 'history'
  }
  return path.replace(/\[\d+\]/g, '[]')
}
