/** The names of Claude models at clouds: `us.anthropic.claude-sonnet-4-5-20250929-v1:0`, `claude-sonnet-4-5@20250929`. */

/** The region of an inference profile, before the maker. */
const REGION = /^[a-z-]{2,6}\.(?=anthropic\.)/

/** The last part of an ARN or a path. */
const lastPart = (model: string): string => model.slice(model.lastIndexOf('/') + 1)

/** The id of a model at Bedrock, without the region of an inference profile. */
export const withoutRegion = (model: string): string => lastPart(model).replace(REGION, '')

/** The name at Anthropic, without what clouds put around it. */
export const claudeName = (model: string): string =>
  withoutRegion(model)
    .replace(/^anthropic\./, '')
    .replace(/-v\d+(?::\d+)?$/, '')
    .replace('@', '-')

/** The names under which a gateway may know the model of a cloud, the most exact first. */
export const cloudNames = (model: string): readonly string[] => {
  const name = claudeName(model)
  return [...new Set([model, withoutRegion(model), name, name.replace(/-20\d{6}$/, '')])]
}
