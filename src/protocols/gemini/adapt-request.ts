/** The client's own body for an upstream of the same format. */
import { isObject, type Json, type JsonObject, number, object } from '../../core/json.ts'
import { mapMember, withoutMember } from '../../core/json-edit.ts'
import type { EncodeTarget, LoweredBody } from '../../core/protocol.ts'
import { familyOf } from './family.ts'
import { isPacked, PLACEHOLDER_SIGNATURE } from './packed-signature.ts'
import { protoMember } from './proto-fields.ts'

/** Leaves out what the path has, and replaces signatures that only the gateway can read. The same object if nothing changes. */
export const adaptRequest = (body: JsonObject, { model }: EncodeTarget): JsonObject => {
  const { requiresSignatures } = familyOf(model)
  const own = withoutPacked(withoutMember(body, 'model', 'stream'), requiresSignatures)
  const member = own.generate_content_request === undefined ? 'generateContentRequest' : 'generate_content_request'
  const counted = object(own[member])
  return counted
    ? { ...own, [member]: withoutPacked({ ...counted, model: `models/${model}` }, requiresSignatures) }
    : own
}

const withoutPacked = (body: JsonObject, requiresSignatures: boolean): JsonObject =>
  mapMember(body, 'contents', (content) =>
    isObject(content) ? mapMember(content, 'parts', (part) => ownPart(part, requiresSignatures)) : content,
  )

/** Undefined: the part was only a signature. */
const ownPart = (part: Json, requiresSignatures: boolean): Json | undefined => {
  if (!isObject(part) || !isPacked(protoMember(part, 'thoughtSignature'))) return part
  const rest = withoutMember(part, 'thoughtSignature', 'thought_signature')
  if (protoMember(rest, 'functionCall') !== undefined)
    return requiresSignatures ? { ...rest, thoughtSignature: PLACEHOLDER_SIGNATURE } : rest
  return rest.text === '' ? undefined : rest
}

/** Lowers the output limit in whichever spelling the body has it. */
export const lowerOutput = (body: JsonObject, limit: number): LoweredBody => {
  const parent = body.generation_config === undefined ? 'generationConfig' : 'generation_config'
  const config = object(body[parent]) ?? {}
  const member = config.max_output_tokens === undefined ? 'maxOutputTokens' : 'max_output_tokens'
  if ((number(config[member]) ?? Number.POSITIVE_INFINITY) <= limit) return { body, paths: [] }
  return {
    body: { ...body, [parent]: { ...config, [member]: limit } },
    paths: ['generationConfig.maxOutputTokens'],
  }
}
