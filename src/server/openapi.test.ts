import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { CapturedReply, gatewayHarness } from '../../test/support/gateway.ts'
import { ANONYMOUS } from '../core/accounts.ts'
import { KINDS } from '../core/failure.ts'
import type { IncomingRequest } from '../core/http-exchange.ts'
import { isList, isObject, type JsonObject, object } from '../core/json.ts'
import { CLIENT_USAGE_PARAMETERS } from '../usage/reading/parameters.ts'
import { parametersIn } from './admin/validation.ts'
import { errorResponse } from './error-response.ts'
import { handlersFor } from './handlers.ts'
import { openapi } from './openapi.ts'
import { findRoute, handlerOf, pathsOf, ROUTES, type RouteName } from './routes.ts'

const document = openapi('1.2.3')
const paths = object(document.paths) ?? {}
const schemas = object(object(document.components)?.schemas) ?? {}

test('openapi: every route is described, and nothing else is', () => {
  const described = Object.entries(paths).flatMap(([path, methods]) =>
    Object.keys(object(methods) ?? {}).map((method) => `${method.toUpperCase()} ${path}`),
  )
  const served = Object.values(ROUTES).flatMap(({ method, path }) => pathsOf(path).map((twin) => `${method} ${twin}`))
  assert.deepEqual(described.sort(), served.sort())
  for (const path of Object.keys(paths)) assert.ok('routes' in findRoute(path.replace('{id}', 'x')))
})

test('openapi: every operation ID is unique', () => {
  const names = Object.values(paths).flatMap((methods) =>
    Object.values(object(methods) ?? {}).map((operation) => object(operation)?.operationId),
  )
  assert.equal(new Set(names).size, names.length)
})

/** The place and name of each parameter. */
const parametersAt = (operation: unknown): readonly string[] => {
  const parameters = isObject(operation) ? operation.parameters : undefined
  return isList(parameters) ? parameters.map((one) => `${object(one)?.in} ${object(one)?.name}`) : []
}

test('openapi: every path has its parameters, each once', () => {
  for (const [path, methods] of Object.entries(paths))
    for (const [method, operation] of Object.entries(object(methods) ?? {})) {
      const names = parametersAt(operation)
      const found = names.filter((name) => name.startsWith('path '))
      const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => `path ${name}`)
      assert.deepEqual(found, inPath, `${method} ${path}`)
      assert.equal(new Set(names).size, names.length, `${method} ${path}`)
    }
})

const parameters: readonly (readonly [string, readonly string[]])[] = [
  ['GET /v1/responses/{id}', ['path id', 'query stream', 'query starting_after']],
  ['GET /responses/{id}/input_items', ['path id', 'query limit', 'query order', 'query after', 'query before']],
  ['GET /v1/usage', Object.keys(parametersIn(CLIENT_USAGE_PARAMETERS)?.shape ?? {}).map((name) => `query ${name}`)],
  ['GET /v1/models', ['header x-headgate-require']],
  ['POST /v1/route', ['query style', 'header x-headgate-require']],
  [
    'POST /v1/chat/completions',
    [
      'header Idempotency-Key',
      'header x-headgate-metadata',
      'header x-headgate-require',
      'header x-headgate-guards',
      'header x-headgate-cache-breakpoints',
    ],
  ],
  ['POST /v1/embeddings', ['header Idempotency-Key', 'header x-headgate-require', 'header x-headgate-guards']],
  ['POST /v1/messages/count_tokens', ['header x-headgate-require', 'header x-headgate-guards']],
]
for (const [name, expected] of parameters)
  test(`openapi: the parameters of ${name}`, () => {
    const [method = '', path = ''] = name.split(' ')
    assert.deepEqual(parametersAt(object(paths[path])?.[method.toLowerCase()]), expected)
  })

test('openapi: the paths that read an Idempotency-Key are those that describe it', async () => {
  const { gateway } = gatewayHarness([], () => {})
  const handlers = handlersFor({
    gateway,
    version: '0',
    started: 0,
    uptime: () => 0,
    keyed: () => false,
    draining: () => false,
    loading: () => false,
    problems: () => [],
    metrics: () => '',
    clientPages: () => Promise.reject(new Error('not used')),
  })
  // `Object.keys` types the names as strings.
  for (const name of Object.keys(ROUTES) as RouteName[]) {
    const { method, path } = ROUTES[name]
    if (method !== 'POST') continue
    const reply = new CapturedReply()
    const received: IncomingRequest = {
      id: 'req_test',
      method: 'POST',
      path,
      query: '',
      headers: (header) => (header === 'idempotency-key' ? 'with space' : undefined),
      body: { text: '{}' },
      client: ANONYMOUS,
    }
    await handlerOf(handlers, name)(received, reply, '')
    const isRead = reply.text.includes('An Idempotency-Key is')
    const operation = object(paths[path])?.post
    assert.equal(parametersAt(operation).includes('header Idempotency-Key'), isRead, name)
  }
})

test('openapi: every reference resolves, and every schema is used and compiles', () => {
  const text = JSON.stringify(document)
  const wanted = new Set([...text.matchAll(/"#\/components\/schemas\/(\w+)"/g)].map(([, name]) => name))
  assert.deepEqual([...wanted].sort(), Object.keys(schemas).sort())
  const ajv = ajvWith(document)
  for (const name of wanted) assert.ok(ajv.compile({ $ref: `api#/components/schemas/${name}` }))
})

test('openapi: a nullable value of one type has a list of types', () => {
  assert.doesNotMatch(JSON.stringify(schemas), /"anyOf":\[\{"type":"[a-z]+"\},\{"type":"null"\}\]/)
  const { encoding_format: format, user } = object(object(schemas.EmbeddingsRequest)?.properties) ?? {}
  assert.deepEqual(format, { type: ['string', 'null'], enum: ['float', 'base64', null] })
  assert.deepEqual(user, { type: ['string', 'null'] })
})

test('openapi: every error matches its schema', () => {
  const ajv = ajvWith(document)
  for (const [schema, path] of [
    ['Error', '/v1/chat/completions'],
    ['Error', '/nowhere'],
    ['MessageError', '/v1/messages'],
  ] as const) {
    const validate = ajv.compile({ $ref: `api#/components/schemas/${schema}` })
    for (const kind of Object.keys(KINDS) as (keyof typeof KINDS)[]) {
      const body: unknown = JSON.parse(errorResponse({ kind, message: 'because' }, 'req_abc', path).body)
      assert.ok(validate(body), `${kind}: ${JSON.stringify(validate.errors)}`)
    }
    assert.ok(!validate({ error: 'no' }))
  }
})

const ajvWith = (api: JsonObject) => {
  assert.ok(isObject(api))
  const ajv = new Ajv2020({ strict: false, validateFormats: false })
  return ajv.addSchema(api as object, 'api')
}
