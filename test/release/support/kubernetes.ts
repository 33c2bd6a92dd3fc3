/** Checks objects with the schemas that Kubernetes and other projects publish. */
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Ajv, type ValidateFunction } from 'ajv'
import { parse } from 'yaml'
import { isList, isObject, type Json, type JsonObject, list, object, parseJson, text } from '../../../src/core/json.ts'
import { SCHEMAS } from './tools.ts'

/**
 * Members that a schema does not name are refused, as a server does with `--validate=strict`. Patterns with flags of Go
 * inside are left out.
 */
const closed = (schema: Json | undefined): Json => {
  if (isList(schema)) return schema.map(closed)
  if (!isObject(schema)) return schema ?? null
  const members = Object.entries(schema).filter(([name, value]) => name !== 'pattern' || !text(value)?.includes('(?i)'))
  const copy = Object.fromEntries(members.map(([name, value]) => [name, closed(value)]))
  return isObject(schema.properties) && schema.additionalProperties === undefined
    ? { ...copy, additionalProperties: false }
    : copy
}

export type Checker = (document: JsonObject) => readonly string[]

const kindOf = ({ apiVersion, kind }: JsonObject): string => `${String(apiVersion)} ${String(kind)}`

/** The schemas of a folder, by API version and kind. */
const builtin = (ajv: Ajv, folder: string): ReadonlyMap<string, () => ValidateFunction | undefined> => {
  const found = new Map<string, () => ValidateFunction | undefined>()
  for (const file of globSync('*.json', { cwd: folder })) {
    const { components } = object(parseJson(readFileSync(join(folder, file), 'utf8'))) ?? {}
    const schemas = object(object(components)?.schemas) ?? {}
    ajv.addSchema({ $id: file, components: { schemas: closed(schemas) } })
    for (const [name, schema] of Object.entries(schemas))
      for (const each of list(object(schema)?.['x-kubernetes-group-version-kind'])) {
        const { group, version, kind } = object(each) ?? {}
        const apiVersion = group === '' ? String(version) : `${String(group)}/${String(version)}`
        found.set(`${apiVersion} ${String(kind)}`, () => ajv.getSchema(`${file}#/components/schemas/${name}`))
      }
  }
  return found
}

/** Schemas of custom resource definitions. Their metadata is checked only for being an object. */
const custom = (ajv: Ajv): ReadonlyMap<string, () => ValidateFunction | undefined> => {
  const found = new Map<string, () => ValidateFunction | undefined>()
  for (const file of globSync('custom/*.yaml', { cwd: SCHEMAS })) {
    const { spec } = parse(readFileSync(join(SCHEMAS, file), 'utf8'))
    for (const { name, schema } of spec.versions)
      found.set(`${spec.group}/${name} ${spec.names.kind}`, () =>
        ajv.compile(object(closed(schema.openAPIV3Schema)) ?? {}),
      )
  }
  return found
}

/** A check of objects by the schemas of a version, such as `v1.37.2`. It returns the problems with their places. */
export const checkerOf = (version: string): Checker => {
  const ajv = new Ajv({ strict: false, validateFormats: false, allErrors: true })
  const known = new Map([...builtin(ajv, join(SCHEMAS, version)), ...custom(ajv)])
  return (document) => {
    const check = known.get(kindOf(document))?.()
    assert.ok(check, `no schema for ${kindOf(document)}`)
    check(document)
    return (check.errors ?? []).map(
      ({ instancePath, message, params }) => `${instancePath} ${message} ${JSON.stringify(params)}`,
    )
  }
}
