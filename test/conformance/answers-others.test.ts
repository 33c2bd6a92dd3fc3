import { sweep } from './sweep.ts'

sweep('gemini', 'bedrock-converse', 'cohere', 'mistral', 'ollama')
