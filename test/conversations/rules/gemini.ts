/** Rules of Gemini 3 in its own format. */
import { isList, isObject, type Json, type JsonObject, list, object, text } from '../../../src/core/json.ts'
import { firstOf, objects, type Rule, type Rules, type VendorRefusal } from '../rule.ts'
import { geminiLimits } from './limits.ts'

const refused = (message: string): VendorRefusal => ({
  status: 400,
  body: { error: { code: 400, message, status: 'INVALID_ARGUMENT' } },
})

const calls = (content: JsonObject | undefined): number =>
  objects(content?.parts).filter(({ functionCall }) => functionCall !== undefined).length
const results = (content: JsonObject | undefined): number =>
  objects(content?.parts).filter(({ functionResponse }) => functionResponse !== undefined).length

/** A recorded 400 of Vertex. */
const roles: Rule = ({ contents }) =>
  objects(contents).every(({ role }) => role === undefined || role === 'user' || role === 'model')
    ? null
    : refused('Please use a valid role: user, model.')

/** Sources: google-gemini/gemini-cli#5443, microsoft/vscode#299295. */
const responseCount: Rule = ({ contents }) => {
  const all = objects(contents)
  return all.every(
    (content, index) =>
      (calls(content) === 0 || calls(content) === results(all[index + 1])) &&
      (results(content) === 0 || results(content) === calls(all[index - 1])),
  )
    ? null
    : refused(
        'Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.',
      )
}

/** Sources: google-gemini/gemini-cli#26486, google-gemini/gemini-cli#11814. */
const callAfterUser: Rule = ({ contents }) => {
  const all = objects(contents)
  return all.every((content, index) => calls(content) === 0 || all[index - 1]?.role === 'user')
    ? null
    : refused(
        'Please ensure that function call turn comes immediately after a user turn or after a function response turn.',
      )
}

/** Values that Google documents as accepted if the real signature is not available. */
const SKIPPED = new Set(['skip_thought_signature_validator', 'context_engineering_is_the_way_to_go'])

/**
 * In the current turn, the first call of each step must have its signature. Sources:
 * langgenius/dify-official-plugins#2088, nanbingxyz/5ire#405, BerriAI/litellm#16893.
 */
const signatureMissing: Rule = ({ contents }) => {
  const all = objects(contents)
  const question = all.findLastIndex((content) => content.role === 'user' && results(content) === 0)
  return firstOf(all, (content, index) => {
    const first = objects(content.parts).find(({ functionCall }) => functionCall !== undefined)
    return index < question || !first || typeof first.thoughtSignature === 'string'
      ? null
      : refused(
          `Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly, and missing thought_signature may lead to degraded model performance. Additional data, function call \`default_api:${text(object(first.functionCall)?.name)}\` , position ${index}.`,
        )
  })
}

/** Sources: google-gemini/gemini-cli#13467, decolua/9router#4136 (measured), router-for-me/CLIProxyAPI#994. */
const signatureForeign: Rule = ({ contents }, { isOwn }) =>
  firstOf(contents, ({ parts }) =>
    firstOf(parts, ({ thoughtSignature: signature }) =>
      typeof signature !== 'string' || SKIPPED.has(signature) || isOwn(signature)
        ? null
        : refused('Corrupted thought signature.'),
    ),
  )

const NOT_IN_SCHEMA = ['additionalProperties', '$ref', '$schema', 'const', 'oneOf', 'patternProperties']

const unknownIn = (schema: Json | undefined): string | undefined => {
  if (isList(schema)) return schema.map(unknownIn).find((name) => name !== undefined)
  if (!isObject(schema)) return undefined
  return (
    NOT_IN_SCHEMA.find((name) => schema[name] !== undefined) ??
    Object.values(schema)
      .map(unknownIn)
      .find((name) => name !== undefined)
  )
}

/**
 * The older members accept a subset of OpenAPI's schema; those named `…JsonSchema` accept all of it (Google's schema).
 */
const schema: Rule = (body) => {
  const declared = objects(body.tools).flatMap((tool) => objects(tool.functionDeclarations))
  const subsets = [...declared.map(({ parameters }) => parameters), object(body.generationConfig)?.responseSchema]
  const name = subsets.map(unknownIn).find((found) => found !== undefined)
  return name === undefined
    ? null
    : refused(
        `Invalid JSON payload received. Unknown name "${name}" at 'tools[0].function_declarations[0].parameters': Cannot find field.`,
      )
}

/** Google's reference (2026-11-21). */
const emptyParts: Rule = ({ contents }) =>
  objects(contents).every(({ parts }) => list(parts).length > 0)
    ? null
    : refused('* GenerateContentRequest.contents: contents.parts must not be empty.')

export const gemini: Rules = {
  'gemini.roles': roles,
  'gemini.empty-parts': emptyParts,
  'gemini.schema': schema,
  'gemini.response-count': responseCount,
  'gemini.call-after-user': callAfterUser,
  'gemini.signature-missing': signatureMissing,
  'gemini.signature-foreign': signatureForeign,
  ...geminiLimits,
}
