/** Readers of vendors' model lists. Only models that generate text are kept. */
import { isObject, type Json, type JsonObject, list, object, text } from '../../core/json.ts'

/** The usual list, `{data:[{id}]}`, filtered by `keep`. */
export const idsWhere =
  (keep: (entry: JsonObject, id: string) => boolean) =>
  (body: Json): readonly string[] =>
    entriesOf(body).flatMap((entry) => {
      const id = text(entry.id)
      return id !== undefined && id !== '' && keep(entry, id) ? [id] : []
    })

/** `{data:[…]}`, or a bare array as from Together. */
const entriesOf = (body: Json): readonly JsonObject[] =>
  (Array.isArray(body) ? list(body) : list(object(body)?.data)).filter(isObject)

/** Parts of names of models without chat support, for vendors whose lists do not state it. */
const NOT_CHAT =
  /embed|rerank|whisper|transcribe|\btts\b|-tts|orpheus|playai|moderation|guard|dall-e|image|imagine|\bsora|\bveo|lyria|flux|stable-diffusion|realtime|\blive\b|native-audio|\baqa\b|babbage|davinci|ocr|parakeet|speech|video/i

/** Entries whose names do not indicate another purpose than chat. */
export const chatIds = idsWhere((_entry, id) => !NOT_CHAT.test(id))
