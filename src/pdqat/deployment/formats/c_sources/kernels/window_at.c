/* The window that a pixel is made of: where it begins, and whether all of it lies in the image. */
KERNEL window window_at(const convolution *layer, const tensor *from, const tensor *to, int pixel)
{
    window at;
    at.top = pixel / to->width * layer->stride_y - layer->pad_y;
    at.left = pixel % to->width * layer->stride_x - layer->pad_x;
    at.is_inside = at.top >= 0 && at.top + (layer->kernel_height - 1) * layer->dilation_y < from->height &&
                   at.left >= 0 && at.left + (layer->kernel_width - 1) * layer->dilation_x < from->width;
    return at;
}
