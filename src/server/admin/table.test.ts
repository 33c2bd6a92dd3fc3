import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { z } from 'zod'
import { object } from '../../core/json.ts'
import { openapiOf, operationId } from './openapi.ts'
import type { AdminRow } from './row.ts'
import { TABLE } from './table.ts'
import { readQuery } from './validation.ts'

const nameOf = ({ method, path }: AdminRow): string => `${method} ${path}`

/** What is only ended. */
const WITHOUT_REVISION: ReadonlySet<string> = new Set(['/sign-ins/{id}'])

describe('the table of the admin API', () => {
  test('has each method of a path once', () => {
    assert.equal(new Set(TABLE.map(nameOf)).size, TABLE.length)
  })

  for (const row of TABLE)
    test(`${nameOf(row)}: its example fits its schemas`, () => {
      const { params, query, body, answer, example, path } = row
      const names = [...path.matchAll(/\{([a-z]+)\}/g)].map(([, name]) => name)
      assert.deepEqual(Object.keys(params?.shape ?? {}), names)
      if (params) params.parse(example.params)
      if (query) {
        const read = readQuery(query, new URLSearchParams(example.query).toString())
        assert.ok(read.ok, JSON.stringify(read))
      }
      if (body !== undefined) assert.notEqual(example.body, undefined, 'it has no example of its body')
      if (body instanceof z.ZodType) body.parse(example.body)
      if (example.answer !== undefined && answer instanceof z.ZodType) answer.parse(example.answer)
    })

  test('requires a condition for every change of an object with a revision', () => {
    for (const row of TABLE)
      if (row.method === 'PATCH' || (row.method === 'DELETE' && !WITHOUT_REVISION.has(row.path)))
        assert.ok(row.conditional, nameOf(row))
  })

  test('refuses unknown members of every body and every query', () => {
    for (const { body, query, ...row } of TABLE) {
      if (query) assert.ok(!readQuery(query, 'no_such_parameter=1').ok, nameOf({ ...row }))
      if (body instanceof z.ZodObject)
        assert.ok(
          !body.safeParse({ ...object(JSON.parse(JSON.stringify(row.example.body))), no_such_member: 1 }).success,
          nameOf({ ...row }),
        )
    }
  })
})

describe('the description of the admin API', () => {
  const document = openapiOf(TABLE, '1.2.3')
  const text = JSON.stringify(document)

  test('describes every row once', () => {
    const described = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path.replace('/admin/api/v1', '')}`),
    )
    assert.deepEqual(described.toSorted(), TABLE.map(nameOf).toSorted())
    assert.equal(new Set(TABLE.map(operationId)).size, TABLE.length)
  })

  test('has every schema that it refers to, and each of them compiles', () => {
    const wanted = new Set([...text.matchAll(/"#\/components\/schemas\/(\w+)"/g)].map(([, name]) => name))
    assert.deepEqual([...wanted].toSorted(), Object.keys(document.components.schemas).toSorted())
    const ajv = new Ajv2020({ strict: false, validateFormats: false }).addSchema(JSON.parse(text), 'api')
    for (const name of wanted) assert.ok(ajv.compile({ $ref: `api#/components/schemas/${name}` }))
  })

  test('accepts the examples of the answers', () => {
    const ajv = new Ajv2020({ strict: false, validateFormats: false }).addSchema(JSON.parse(text), 'api')
    for (const row of TABLE) {
      if (row.example.answer === undefined || !(row.answer instanceof z.ZodType)) continue
      const path = `~1admin~1api~1v1${row.path.replaceAll('/', '~1')}`.replaceAll('{', '%7B').replaceAll('}', '%7D')
      const status = row.status ?? 200
      const place = `paths/${path}/${row.method.toLowerCase()}/responses/${status}/content/application~1json/schema`
      const validate = ajv.compile({ $ref: `api#/${place}` })
      assert.ok(validate(row.example.answer), `${nameOf(row)}: ${JSON.stringify(validate.errors)}`)
    }
  })
})
