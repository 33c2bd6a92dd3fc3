/**
 * The shapes of Google's clients: `:embedContent` for one content, `:batchEmbedContents` for several, and Vertex AI's `:predict` for
 * texts (ai.google.dev/api/embeddings; Vertex AI's reference of text embeddings; @google/genai 3.1.0 as a client, 2026-11-28).
 */
import type { Extra, Setting } from '../../core/chat.ts'
import type { EmbeddingInput, EmbeddingsRequest, EmbeddingsShape, Vector } from '../../core/embeddings.ts'
import { bad, fail, good, type Outcome } from '../../core/failure.ts'
import { type Json, type JsonObject, list, object } from '../../core/json.ts'
import { protoFields, protoFieldsIn } from '../gemini/proto-fields.ts'
import { bareModel, calledMethod, queryProblem } from '../gemini/request-path.ts'
import type { Problems, RequestFields } from '../shared/request-fields.ts'
import { settingAt } from '../shared/setting-decoders.ts'
import { PURPOSES } from './decode-request.ts'
import { readVector, withEncoding } from './vectors.ts'

/** One input with its settings, which Google's requests repeat for each. */
type EmbedEntry = EmbedSettings & { readonly input: EmbeddingInput; readonly extras: readonly Extra[] }
type EmbedSettings = { readonly dimensions: Setting<number> | undefined; readonly task: Setting<string> | undefined }

const settingsIn = (fields: RequestFields): EmbedSettings => ({
  dimensions: settingAt(
    fields.path('outputDimensionality'),
    fields.number('outputDimensionality', { least: 1, whole: true }),
  ),
  task: settingAt(fields.path('taskType'), fields.string('taskType')),
})

/** A content. Several texts of one content have one vector together. */
const contentIn = (fields: RequestFields, sent: Json, problems: Problems): EmbeddingInput => {
  const at = fields.path('content')
  const content = protoFieldsIn(fields, 'content', problems)
  const parts = content?.list('parts') ?? []
  if (!content) fields.missing('content', 'a content with `parts`')
  else if (parts.length === 0) content.missing('parts', 'a list of parts')
  const texts = parts.flatMap(textOf)
  if (texts.length < parts.length) return { at, sent, parts }
  const text = texts.join('\n')
  if (parts.length > 0 && text === '') content?.invalid('parts', 'a list with a text')
  return { at, sent, text }
}

/** The text of a part that is nothing else. */
const textOf = (part: Json): readonly string[] => {
  const { text, ...rest } = object(part) ?? {}
  return typeof text === 'string' && Object.keys(rest).length === 0 ? [text] : []
}

const entryOf = (fields: RequestFields, sent: Json, problems: Problems): EmbedEntry => {
  // The model of the path is the one that is called.
  fields.any('model')
  const input = contentIn(fields, sent, problems)
  return { input, ...settingsIn(fields), extras: fields.unread() }
}

const instanceOf = (sent: Json, at: string, problems: Problems): EmbedEntry => {
  const fields = protoFields(sent, at, problems)
  const text = fields.string('content')
  if (!text) fields.missing('content', 'a text to embed; other predictions are not served')
  const input = { at: fields.path('content'), sent, text: text ?? '' }
  return { input, ...settingsIn(fields), extras: fields.unread() }
}

/** All entries as one request, since other formats have each setting once. */
const requestOf = (entries: readonly EmbedEntry[], model: string): Outcome<EmbeddingsRequest> => {
  const [first] = entries
  const other = entries.find(({ dimensions }) => dimensions?.value !== first?.dimensions?.value)
  if (other) {
    const param = (other.dimensions ?? first?.dimensions)?.at ?? ''
    return bad(fail('invalid_value', 'All contents of one request need the same `outputDimensionality`.', { param }))
  }
  const tasks = entries.map(({ task }) => task)
  const isOne = tasks.every((task) => task?.value === first?.task?.value)
  const purpose = isOne ? PURPOSES.get(first?.task?.value.toLowerCase() ?? '') : undefined
  const lost = purpose ? [] : tasks.flatMap((task) => (task ? [asExtra(task)] : []))
  return good({
    model,
    inputs: entries.map(({ input }) => input),
    encoding: 'float',
    ...(first?.dimensions && { dimensions: first.dimensions }),
    ...(purpose && first?.task && { purpose: { value: purpose, at: first.task.at } }),
    extras: firstOfEach([...lost, ...entries.flatMap(({ extras }) => extras)]),
  })
}

/** A task that other formats do not have, or not for one input alone. */
const asExtra = ({ value, at }: Setting<string>): Extra => ({ at, name: 'taskType', value, essential: false })

/** One loss is reported for a member of many inputs. */
const firstOfEach = (extras: readonly Extra[]): readonly Extra[] => [
  ...new Map(extras.toReversed().map((extra) => [extra.name, extra])).values(),
]

/** Reads the entries of a body, whose model is in the path. */
const decoderOf =
  (entriesOf: (body: JsonObject, model: string, problems: Problems) => readonly EmbedEntry[]) =>
  (body: JsonObject, path?: string, query = ''): Outcome<EmbeddingsRequest> => {
    const refused = queryProblem(query)
    if (refused) return bad(refused)
    const problems: Problems = {}
    const model = calledMethod(path)?.model ?? ''
    const entries = entriesOf(body, model, problems)
    return problems.first ? bad(problems.first) : requestOf(entries, model)
  }

/** A list with an entry for each input. */
const listIn = (fields: RequestFields, name: string): readonly Json[] => {
  const found = fields.list(name) ?? []
  if (found.length === 0) fields.missing(name, 'a list with an entry for each text')
  return found
}

const googleModel = (model: string): string => (model.startsWith('models/') ? model : `models/${model}`)
const valuesOf = (vector: Vector): Vector => withEncoding(vector, 'float')
const usageOf = (input: number | undefined) =>
  input !== undefined && { usageMetadata: { promptTokenCount: input, totalTokenCount: input } }

/** Vertex AI has the settings in a member of their own. */
const CONFIG = 'embedContentConfig'

export const embedContent: EmbeddingsShape = {
  format: 'gemini-embeddings',
  decodeRequest: decoderOf((body, _model, problems) => {
    const fields = protoFields(body, '', problems)
    const config = protoFieldsIn(fields, CONFIG, problems)
    const entry = entryOf(fields, body, problems)
    if (!config) return [entry]
    const { dimensions = entry.dimensions, task = entry.task } = settingsIn(config)
    return [{ ...entry, dimensions, task, extras: [...entry.extras, ...config.unread()] }]
  }),
  ownBody: (body, { model }) =>
    body[CONFIG] === undefined && body.embed_content_config === undefined
      ? { requests: [{ ...body, model: googleModel(model) }] }
      : null,
  isReadable: () => false,
  encodeAnswer: ({ vectors, input }) => ({
    embedding: { values: vectors[0] === undefined ? [] : valuesOf(vectors[0]) },
    ...usageOf(input),
  }),
}

export const batchEmbedContents: EmbeddingsShape = {
  format: 'gemini-embeddings',
  decodeRequest: decoderOf((body, model, problems) => {
    const fields = protoFields(body, '', problems)
    const requests = listIn(fields, 'requests')
    const extras = fields.unread()
    return requests.map((request, index) => {
      const inner = protoFields(request, `requests[${index}]`, problems)
      const named = inner.string('model') ?? ''
      if (named !== '' && bareModel(named) !== model) inner.invalid('model', 'the model in the path')
      const entry = entryOf(inner, request, problems)
      return { ...entry, extras: [...entry.extras, ...extras] }
    })
  }),
  ownBody: (body, { inputs, model }) => ({
    ...body,
    requests: inputs.map(({ sent }) => ({ ...object(sent), model: googleModel(model) })),
  }),
  isReadable: (answer) => list(object(answer)?.embeddings).every((entry) => hasValues(entry)),
  encodeAnswer: ({ vectors, input }) => ({
    embeddings: vectors.map((vector) => ({ values: valuesOf(vector) })),
    ...usageOf(input),
  }),
}

export const predict: EmbeddingsShape = {
  format: 'vertex-embeddings',
  decodeRequest: decoderOf((body, _model, problems) => {
    const fields = protoFields(body, '', problems)
    const instances = listIn(fields, 'instances')
    const parameters = protoFieldsIn(fields, 'parameters', problems)
    const shared = parameters && settingsIn(parameters)
    const extras = [...(parameters?.unread() ?? []), ...fields.unread()]
    return instances.map((instance, index) => {
      const entry = instanceOf(instance, `instances[${index}]`, problems)
      return {
        ...entry,
        dimensions: shared?.dimensions ?? entry.dimensions,
        task: entry.task ?? shared?.task,
        extras: [...entry.extras, ...extras],
      }
    })
  }),
  ownBody: (body, { request, inputs }) =>
    inputs === request.inputs ? body : { ...body, instances: inputs.map(({ sent }) => sent) },
  isReadable: (answer) => list(object(answer)?.predictions).every((one) => hasValues(object(one)?.embeddings ?? null)),
  // The tokens of one of several texts are not known.
  encodeAnswer: ({ vectors, input }) => ({
    predictions: vectors.map((vector) => ({
      embeddings: {
        values: valuesOf(vector),
        ...(vectors.length === 1 && input !== undefined && { statistics: { token_count: input } }),
      },
    })),
  }),
}

const hasValues = (entry: Json): boolean => typeof readVector(object(entry)?.values) === 'object'
