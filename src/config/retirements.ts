/** The section `models` of the file: when providers end models, and what replaces them. */
import { z } from 'zod'
import { nearest } from '../core/nearest.ts'
import type { Instance } from '../core/provider.ts'
import { type DeclaredRetirement, retirementTime } from '../core/retirement.ts'
import { instancesNamed } from '../policy/routing/models.ts'
import { type Problem, quote } from './problem.ts'
import type { Tree } from './tree.ts'

const name = z.string().min(1).max(400)

export const retirementSchema = z
  .strictObject({
    retires: z
      .string()
      .refine((text) => retirementTime(text) !== null)
      .meta({ allowed: 'a day such as 2026-12-11 (UTC), or a time with its zone such as 2026-12-11T09:00:00-08:00' })
      .optional()
      .describe('when the provider ends the model, instead of what its list and the catalogue state'),
    successor: name.optional().describe('the model of the same provider that replaces it'),
  })
  .describe('the end of a model')

export type RetirementEntry = z.output<typeof retirementSchema>

type Declared = ReadonlyMap<string, ReadonlyMap<string, DeclaredRetirement>>

/** By the ID of the instance and the name of the model. A provider's name stands for all its instances. */
export const retirementsFrom = (
  entries: ReadonlyMap<string, RetirementEntry>,
  instances: readonly Instance[],
  placeOf: Extract<Tree, { ok: true }>['placeOf'],
): { readonly of: Declared; readonly problems: readonly Problem[] } => {
  const problems: Problem[] = []
  const of = new Map<string, Map<string, DeclaredRetirement>>()
  for (const [named, { retires, successor }] of entries) {
    const slash = named.indexOf('/')
    const [provider, model] = [named.slice(0, Math.max(0, slash)), named.slice(slash + 1)]
    const found = provider === '' || model === '' ? [] : instancesNamed(instances, provider)
    if (found.length === 0) {
      const ids = instances.map(({ id }) => id)
      const [meant] = nearest(provider, ids)
      problems.push({
        where: placeOf(['models', named]).name,
        what: 'models',
        found: `the model ${quote(named)}, whose provider is not configured`,
        allowed: `provider/model; ${meant ? `did you mean ${meant}? ` : ''}${ids.join(', ') || 'no provider is configured'}`,
      })
    }
    const at = retires === undefined ? null : retirementTime(retires)
    const declared = { ...(at !== null && { at }), ...(successor !== undefined && { successor }) }
    for (const { id } of found) of.set(id, (of.get(id) ?? new Map()).set(model, declared))
  }
  return { of, problems }
}

/** The instances with what is declared of their models. */
export const withRetirements = (instances: readonly Instance[], of: Declared): readonly Instance[] =>
  of.size === 0
    ? instances
    : instances.map((one) => {
        const retirements = of.get(one.id)
        return retirements ? { ...one, retirements } : one
      })

/** The section for instances that have been configured. */
export const modelEntries = (instances: readonly Instance[]): { readonly [name: string]: RetirementEntry } =>
  Object.fromEntries(
    instances.flatMap(({ id, retirements = new Map() }) =>
      [...retirements].map(([model, { at, successor }]) => [
        `${id}/${model}`,
        { ...(at !== undefined && { retires: new Date(at).toISOString() }), ...(successor && { successor }) },
      ]),
    ),
  )
