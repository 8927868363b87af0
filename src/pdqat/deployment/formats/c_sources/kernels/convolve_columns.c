/* A pixel of a convolution of codes with weights of 8 bits, on columns: its window is a stretch of them, as it is. */
KERNEL void convolve_columns(const convolution *layer, const tensor *columns, const tensor *to, int pixel)
{
    const uint8_t *codes = data_of(columns);
    codes += pixel % to->width * layer->stride_x * columns->channels;
    multiply_bytes(columns, arena.row, layer->bytes, codes, layer->row_bytes, to->channels);
}
