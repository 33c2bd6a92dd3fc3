/** Finds images, audio, videos and files in a request, in the client's own body. All formats share this, as for texts. */
import { isList, isObject, type Json, type JsonObject } from '../../core/json.ts'

export type MediaLabel = 'IMAGE' | 'AUDIO' | 'VIDEO' | 'FILE'

/** Types of parts, and members of parts without a type, which clients mix. */
const LABELS: Readonly<Record<string, MediaLabel>> = {
  image: 'IMAGE',
  image_url: 'IMAGE',
  image_file: 'IMAGE',
  input_image: 'IMAGE',
  computer_screenshot: 'IMAGE',
  audio: 'AUDIO',
  audio_url: 'AUDIO',
  input_audio: 'AUDIO',
  video: 'VIDEO',
  video_url: 'VIDEO',
  input_video: 'VIDEO',
  file: 'FILE',
  file_data: 'FILE',
  file_url: 'FILE',
  input_file: 'FILE',
  document: 'FILE',
  container_upload: 'FILE',
}

/** Members of a request that declare tools or the form of the answer. */
const NOT_READ: ReadonlySet<string> = new Set([
  ...['tools', 'functions', 'mcp_servers', 'tool_choice', 'response_format', 'text', 'output_config', 'metadata'],
  ...['modalities', 'audio', 'container', 'include'],
])

/** A label for each medium in the body. */
export const mediaIn = (body: JsonObject): readonly MediaLabel[] => {
  const found: MediaLabel[] = []
  for (const [name, value] of Object.entries(body)) if (!NOT_READ.has(name)) collect(value, found)
  return found
}

const collect = (value: Json | undefined, found: MediaLabel[]): void => {
  if (isList(value)) for (const item of value) collect(item, found)
  else if (isObject(value)) {
    const label = labelOf(value)
    if (label) found.push(label)
    else for (const inner of Object.values(value)) collect(inner, found)
  }
}

const labelOf = (part: JsonObject): MediaLabel | undefined => {
  const { type, source, result } = part
  // Claude's documents of text and of other blocks.
  if (type === 'document' && isObject(source) && (source.type === 'text' || source.type === 'content')) return undefined
  if (type === 'image_generation_call') return typeof result === 'string' ? 'IMAGE' : undefined
  if (typeof type === 'string' && Object.hasOwn(LABELS, type)) return LABELS[type]
  const member = Object.keys(part).find((name) => Object.hasOwn(LABELS, name) && name.includes('_'))
  return member === undefined || part[member] === null ? undefined : LABELS[member]
}
