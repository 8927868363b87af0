/* The mean of each window. */
KERNEL void average_pool_real(const windows *pool, const tensor *from, const tensor *to)
{
    for (int pixel = 0; pixel < pixels_of(to); pixel++) {
        int top = pixel / to->width * pool->stride_y - pool->pad_y, bottom = top + pool->height;
        int left = pixel % to->width * pool->stride_x - pool->pad_x, right = left + pool->width;
        int count = pool->height * pool->width;
        if (!pool->counts_padding) {
            int rows = (bottom < from->height ? bottom : from->height) - (top < 0 ? 0 : top);
            count = rows * ((right < from->width ? right : from->width) - (left < 0 ? 0 : left));
        }
        for (int channel = 0; channel < to->channels; channel++)
            put_real(to, pixel, channel, mean_of(from, channel, top, bottom, left, right, count));
    }
}
