/** Requests as a vendor receives them, with the real provider files. */
import assert from 'node:assert/strict'
import { loadProviders } from '../../src/config/catalogue/load-providers.ts'
import type { ClientProtocolName, UpstreamProtocolName } from '../../src/core/chat.ts'
import type { ModelFacts } from '../../src/core/config.ts'
import { isObject, type JsonObject } from '../../src/core/json.ts'
import type { Instance } from '../../src/core/provider.ts'
import { prepareRequest } from '../../src/gateway/upstream/outbound-request.ts'
import { parseRequest } from '../../src/gateway/upstream/parse-request.ts'
import { protocols } from '../../src/protocols/index.ts'
import { defaultSettings } from './settings.ts'

const providers = await loadProviders()

const instanceOf = (name: string, only: UpstreamProtocolName | undefined): Instance => {
  const provider = providers.get(name)
  assert.ok(provider, `there is no provider ${name}`)
  const all = [...provider.speaks, ...(provider.alsoSpeaks ?? [])]
  return {
    id: name,
    provider,
    baseUrl: provider.baseUrl ?? `https://${name}.test/v1`,
    keys: [{ id: 'k1', secret: null, weight: 1 }],
    models: ['m'],
    speaks: only ? all.filter(({ protocol }) => protocol === only) : provider.speaks,
    variables: {},
  }
}

/** `only`: the wire format, as with `_STYLES`. `facts`: what the catalogue knows about the model. */
type Target = {
  readonly model?: string
  readonly only?: UpstreamProtocolName | undefined
  readonly facts?: ModelFacts
}

/** The request as this vendor receives it. `same`: the body is the client's text, byte for byte. */
export const sent = (name: string, style: ClientProtocolName, given: JsonObject, model = 'm') =>
  sentTo(name, style, given, { model })

/** The same for a target with more properties than its model. */
export const sentTo = (
  name: string,
  style: ClientProtocolName,
  given: JsonObject,
  { model = 'm', only, facts }: Target,
) => {
  const source = JSON.stringify({ model, ...given })
  const question = parseRequest(
    protocols[style],
    { body: { text: source }, headers: () => undefined },
    defaultSettings.limit,
  )
  assert.ok(question.ok, 'the request is refused here')
  const prepared = prepareRequest(
    question.value,
    { instance: instanceOf(name, only), model, because: '', weight: 1 },
    facts,
  )
  assert.ok(prepared)
  const body: unknown = JSON.parse(prepared.body.text)
  assert.ok(isObject(body))
  const { dropped, unfit, because, protocol } = prepared
  return { body, dropped, unfit, because, style: protocol.style, same: prepared.body.text === source }
}
