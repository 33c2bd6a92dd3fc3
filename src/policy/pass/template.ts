/** Paths without what clients choose, for the ledger: `/v1/files/{id}/content`. */

/** Words of the APIs' own paths. Any other segment is an ID or a name. */
const WORDS: ReadonlySet<string> = new Set(
  `admin annotations assistants audio batch batches batchEmbedContents cachedContents cancel caches chat checkpoints
complete completions containers content conversations corpora count_tokens documents download edits embeddings evals events file_batches
fileSearchStores files fine_tuning generations graders images input_items input_tokens interactions invoke items jobs messages models
moderations operations organizations output_items parts pause permissions projects publishers publish query rerank responses results
resume run runs search skills speech steps submit_tool_outputs threads transcriptions translations tunedModels upload uploads
variations vector_stores versions videos locations google anthropic`.split(/\s+/),
)
const VERSION = /^v\d{1,2}(?:(?:alpha|beta)\d{0,2})?$/

export const isPathWord = (segment: string): boolean => WORDS.has(segment) || VERSION.test(segment)

/** A method behind the name of a resource: `:cancel`. */
const METHOD = /:[A-Za-z]{1,40}$/

/** The path with its IDs and names as `{id}`. Methods stay. */
export const pathTemplate = (path: string): string =>
  path
    .split('/')
    .map((segment) => {
      if (segment === '' || isPathWord(segment)) return segment
      const method = METHOD.exec(segment)?.[0] ?? ''
      const name = segment.slice(0, segment.length - method.length)
      return (isPathWord(name) ? name : '{id}') + method
    })
    .join('/')
