/** Members of embeddings requests, for vendors with closed schemas. */
import { type Json, type JsonObject, list } from '../../core/json.ts'
import { withoutMember } from '../../core/json-edit.ts'
import type { Embeds } from '../../core/provider.ts'

type EmbeddingsQuirk = NonNullable<Embeds['requestBody']>

const hasEffect = (value: Json | undefined): boolean =>
  value !== undefined && value !== null && value !== false && !(Array.isArray(value) && value.length === 0)

/** Keeps the members that the vendor has, and reports others. Tokens as input make it unfit: it takes texts only. */
export const onlyMembers =
  (members: ReadonlySet<string>): EmbeddingsQuirk =>
  (body, _model, lost) => {
    if (list(body.input).some((entry) => typeof entry === 'number' || Array.isArray(entry))) lost('input', true)
    const unknown = Object.keys(body).filter((name) => !members.has(name))
    for (const name of unknown) if (hasEffect(body[name])) lost(name)
    return unknown.length === 0 ? body : withoutMember(body, ...unknown)
  }

/** Names `dimensions` as Mistral and Voyage do. */
export const withOutputDimension = ({ dimensions, ...body }: JsonObject): JsonObject =>
  dimensions === undefined || dimensions === null ? body : { ...body, output_dimension: dimensions }
